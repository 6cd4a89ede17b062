/** A span for each token request, active while the source is called, so that the HTTP client's span nests under it. */

import {
  type Context,
  context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import type { RequestMessage } from '../reporting/channel-messages.ts';
import { outcomeAttributes } from './requests.ts';

export const SPAN_NAME = 'owner_token.request';

export class RequestSpans {
  readonly #tracer: Tracer;
  readonly #attributes: Readonly<Record<string, string>>;
  readonly #spans = new Map<RequestMessage, Span>();

  constructor(tracer: Tracer, attributes: Readonly<Record<string, string>>) {
    this.#tracer = tracer;
    this.#attributes = attributes;
  }

  started(message: RequestMessage): void {
    const caller = context.active();
    const callerSpan = trace.getSpanContext(caller);
    // No caller waits for a refresh, so its span is not a child of the call that happened to trigger it.
    const isRefresh = message.reason === 'refresh';
    const span = this.#tracer.startSpan(
      SPAN_NAME,
      {
        kind: SpanKind.INTERNAL,
        attributes: {
          ...this.#attributes,
          'owner_token.owner': message.owner,
          'owner_token.request.reason': message.reason,
        },
        root: isRefresh,
        ...(isRefresh && callerSpan && { links: [{ context: callerSpan }] }),
      },
      caller,
    );
    this.#spans.set(message, span);
    const within = trace.setSpan(caller, span);
    const outer = Object.hasOwn(message, 'run') && message.run;
    message.run = (send) => context.with(within, outer ? () => outer(send) : send);
  }

  /** Ends the span. Returns a context with it, for exemplars. */
  ended(message: RequestMessage): Context {
    const span = this.#spans.get(message);
    if (!span) return ROOT_CONTEXT;
    this.#spans.delete(message);
    const { error } = message;
    span.setAttributes(outcomeAttributes(message));
    if (error) {
      if (error.status !== undefined) span.setAttribute('http.response.status_code', error.status);
      if (error.failureScope) span.setAttribute('owner_token.scope', error.failureScope);
      span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
    }
    span.end();
    return trace.setSpan(ROOT_CONTEXT, span);
  }

  /** Ends the spans of requests that are still in flight. */
  stop(): void {
    for (const span of this.#spans.values()) span.end();
    this.#spans.clear();
  }
}
