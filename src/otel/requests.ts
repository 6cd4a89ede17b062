/** The token requests of one registry, from its diagnostics channel. */

import { tracingChannel } from 'node:diagnostics_channel';
import type { RequestMessage } from '../reporting/channel-messages.ts';

/** Receives each token request of one registry. */
export interface RequestListener {
  started?(message: RequestMessage): void;
  /** The request succeeded (`token` is set), failed (`error` is set), or was abandoned because nobody waits for it. */
  ended(message: RequestMessage): void;
}

/** Subscribes to the requests of the registry with this name. Returns a function that unsubscribes. */
export function listenToRequests(registry: string, listener: RequestListener): () => void {
  const channel = tracingChannel<object, RequestMessage>('owner-token-registry:request');
  const start = (message: unknown) => {
    if ((message as RequestMessage).registry === registry) listener.started?.(message as RequestMessage);
  };
  const end = (message: unknown) => {
    if ((message as RequestMessage).registry === registry) listener.ended(message as RequestMessage);
  };
  channel.start.subscribe(start);
  channel.asyncEnd.subscribe(end);
  return () => {
    channel.start.unsubscribe(start);
    channel.asyncEnd.unsubscribe(end);
  };
}

/** The attributes of a request's outcome, after OpenTelemetry's semantic conventions. */
export function outcomeAttributes({ reason, error, token }: RequestMessage): Record<string, string> {
  const errorType = error?.code ?? (token === undefined ? 'abandoned' : undefined);
  return { 'owner_token.request.reason': reason, ...(errorType && { 'error.type': errorType }) };
}
