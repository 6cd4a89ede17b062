import type { IssuedToken, TokenRequest, TokenSource } from '../../src/token-source.ts';

/** One request to a {@link ScriptedSource}, which the test answers. */
export interface ScriptedCall {
  readonly accessKey: string;
  readonly request: TokenRequest;
  readonly settled: boolean;
  succeed(issued?: Partial<IssuedToken>): void;
  fail(error: unknown): void;
}

type Script = (call: ScriptedCall, index: number) => void;

/**
 * A source whose answers the test controls. A script answers each request as it arrives; without one, requests wait in
 * {@link ScriptedSource.calls} for `succeed` or `fail`.
 */
export class ScriptedSource implements TokenSource {
  readonly calls: ScriptedCall[] = [];
  closed = 0;
  #issued = 0;
  #script: Script | undefined;

  constructor(script?: Script) {
    this.#script = script;
  }

  /** A source that answers at once with a new token, valid for this many seconds. */
  static answering(expiresInSeconds = 3600): ScriptedSource {
    return new ScriptedSource((call) => call.succeed({ response: { expires_in: expiresInSeconds } }));
  }

  /** Sets the script for later requests; with undefined they wait. */
  script(script: Script | undefined): void {
    this.#script = script;
  }

  requestToken(accessKey: string, request: TokenRequest): Promise<IssuedToken> {
    return new Promise((resolve, reject) => {
      const index = this.calls.length;
      const call = {
        accessKey,
        request,
        settled: false,
        succeed: (issued: Partial<IssuedToken> = {}) => {
          call.settled = true;
          resolve({ token: `token-${++this.#issued}-of-${encodeURIComponent(accessKey)}`, ...issued });
        },
        fail: (error: unknown) => {
          call.settled = true;
          reject(error);
        },
      };
      this.calls.push(call);
      this.#script?.(call, index);
    });
  }

  /** The n-th request, counted from 0; negative numbers count from the end. */
  call(index: number): ScriptedCall {
    const found = this.calls.at(index);
    if (!found) throw new Error(`only ${this.calls.length} requests were made; there is no number ${index}`);
    return found;
  }

  /** Number of requests for this owner. */
  countFor(accessKey: string): number {
    return this.calls.filter((call) => call.accessKey === accessKey).length;
  }

  async close(): Promise<void> {
    this.closed++;
  }
}
