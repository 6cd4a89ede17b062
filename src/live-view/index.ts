/** A page that shows running registries, mounted in the user's own backend. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { LiveView as View } from './live-view.ts';
import { checkArguments, type LiveViewOptions, type ViewedRegistry } from './options.ts';
import type { RegistryStatus } from './status.ts';
import { answerByFetch, answerByNode, endByNode, receivedByFetch, receivedByNode } from './transports.ts';

export type { LiveViewOptions, ViewedRegistry } from './options.ts';
export type { Cause, RegistryStatus, Runway } from './status.ts';

/**
 * A live view, to be mounted at a path of the host's own server.
 *
 * @example
 * ```ts
 * const view: LiveView = liveView(registry, { public: true });
 * const answer = await view.fetch(new Request('http://localhost/tokens/'));
 * console.log(answer.status); // → 200
 * ```
 */
export interface LiveView {
  /** For Express, Connect, Fastify, NestJS and `node:http`. Answers every request that it gets. */
  readonly node: (req: IncomingMessage, res: ServerResponse) => void;
  /** For Hono, Next and other routers that pass a `Request`. */
  readonly fetch: (request: Request) => Promise<Response>;
  /**
   * What the page says at its top, of each registry: who is served, who is not, why, and until when. For a log or a chat
   * message. Counts the owners in slices, so that no call waits for it.
   */
  readonly status: () => Promise<RegistryStatus[]>;
}

/**
 * A read-only page of running registries: which owners work, which do not, why, and until when. Until a page is
 * open it does nothing but record token requests, in at most 4 MB. It answers 403 until `authorize` or `public` says who may look.
 *
 * @param registries one, or several with different names.
 * @throws OwnerTokenError `invalid_options`, listing every problem.
 *
 * @example
 * ```ts
 * import { createServer, type IncomingMessage } from 'node:http';
 *
 * const isSupport = ({ headers }: IncomingMessage) => headers['x-role'] === 'support'; // or your session
 * const view = liveView(registry, { authorize: isSupport });
 * const server = createServer(view.node);
 * console.log(server.listening); // → false
 * ```
 */
export function liveView(
  registries: ViewedRegistry | Iterable<ViewedRegistry>,
  options: LiveViewOptions = {},
): LiveView {
  const checked = checkArguments(registries, options);
  const view = new View(checked.registries, checked.options);
  return {
    status: () => view.status(),
    node: (req, res) => {
      const hasEnded = endByNode(res);
      const answered = view.answer(receivedByNode(req), (answer) => answerByNode(answer, req.method, res, hasEnded));
      answered.catch(() => res.destroy());
    },
    fetch: async (request) => {
      const { method, signal } = request;
      return view.answer(receivedByFetch(request), (answer) => answerByFetch(answer, method, signal));
    },
  };
}
