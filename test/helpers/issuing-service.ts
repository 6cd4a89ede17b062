import { ResourceService } from './resource-service.ts';

/** How a token service handles its tokens. */
export interface Issuing {
  /** A new token revokes the owner's previous one. */
  revokePrevious?: boolean;
  /** Stated as `expires_in`, and enforced. */
  lifetimeSeconds?: number;
  /** The service's clock. */
  now?: () => number;
  /** How long resources refuse a token that was just issued. */
  lagMs?: number;
}

/** One owner's token, valid between these two instants. */
interface Issued {
  owner: string;
  fromMs: number;
  untilMs: number;
}

/**
 * A whole service on one real socket: `POST /auth/v1/token`, and resources everywhere else, which answer 200 with the
 * owner of the token, or 401.
 */
export class IssuingService implements AsyncDisposable {
  /** Number of token requests. */
  posts = 0;
  /** Numbers of calls to resources that were answered 200 and 401. */
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

  /** Revokes this owner's newest token. */
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
