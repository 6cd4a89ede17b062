import { ResourceService } from './resource-service.ts';

/** What a token service does with its tokens. */
export interface Issuing {
  /** A new token ends the one before it. */
  revokePrevious?: boolean;
  /** Seconds, as it says in its answers; it keeps to them by this clock. */
  lifetimeSeconds?: number;
  now?: () => number;
  /** How long its resources refuse a token that was just issued. */
  lagMs?: number;
}

/** One owner's token: good between these two moments. */
interface Issued {
  owner: string;
  fromMs: number;
  untilMs: number;
}

/**
 * A whole service on one real socket: `POST /auth/v1/token`, and resources everywhere else, which answer 200 with the
 * owner that the token speaks for, or 401.
 */
export class IssuingService implements AsyncDisposable {
  /** How many tokens were asked for. */
  posts = 0;
  /** How many calls of resources were answered 200 and 401. */
  accepted = 0;
  refused = 0;
  readonly #issued = new Map<string, Issued>();
  readonly #current = new Map<string, string>();
  #resources!: ResourceService;

  static async start({ revokePrevious = false, lifetimeSeconds = 3600, now = Date.now, lagMs = 0 }: Issuing = {}) {
    const service = new IssuingService();
    service.#resources = await ResourceService.start(({ path, body, token = '' }, response) => {
      response.setHeader('content-type', 'application/json');
      if (path !== '/auth/v1/token') {
        const owner = service.#ownerOf(token, now());
        if (owner === undefined) service.refused++;
        else service.accepted++;
        response.writeHead(owner === undefined ? 401 : 200).end(JSON.stringify({ owner }));
        return;
      }
      const owner: string = JSON.parse(body).appliance_owner_scope;
      if (revokePrevious) service.revoke(owner);
      const issued = `token-${++service.posts}-of-${owner}`;
      const fromMs = now() + lagMs;
      service.#issued.set(issued, { owner, fromMs, untilMs: now() + lifetimeSeconds * 1000 });
      service.#current.set(owner, issued);
      response.end(JSON.stringify({ access_token: issued, token_type: 'Bearer', expires_in: lifetimeSeconds }));
    });
    return service;
  }

  get url(): string {
    return this.#resources.origin;
  }

  /** Ends the token that this owner was given last. */
  revoke(owner: string): void {
    this.#issued.delete(this.#current.get(owner) ?? '');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#resources[Symbol.asyncDispose]();
  }

  #ownerOf(token: string, nowMs: number): string | undefined {
    const issued = this.#issued.get(token);
    return issued && nowMs >= issued.fromMs && nowMs < issued.untilMs ? issued.owner : undefined;
  }
}
