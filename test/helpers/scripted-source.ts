import type { IssuedToken, TokenRequest, TokenSource } from '../../src/token.ts';

/** One request that a {@link ScriptedSource} was asked, waiting for the test to answer it. */
export interface ScriptedCall {
  readonly accessKey: string;
  readonly request: TokenRequest;
  readonly settled: boolean;
  succeed(grant?: Partial<IssuedToken>): void;
  fail(error: unknown): void;
}

type Script = (call: ScriptedCall, index: number) => void;

/**
 * A source that does what the test says, when the test says it. With a script each request is handed to it at once;
 * without one, requests wait in {@link ScriptedSource.calls} for `succeed` or `fail`.
 */
export class ScriptedSource implements TokenSource {
  readonly calls: ScriptedCall[] = [];
  closed = 0;
  #issued = 0;
  #script: Script | undefined;

  constructor(script?: Script) {
    this.#script = script;
  }

  /** A source that answers at once: a new token each time, good for this many seconds. */
  static answering(expiresInSeconds = 3600): ScriptedSource {
    return new ScriptedSource((call) => call.succeed({ response: { expires_in: expiresInSeconds } }));
  }

  /** What later requests are handed to; undefined makes them wait. */
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
        succeed: (grant: Partial<IssuedToken> = {}) => {
          call.settled = true;
          resolve({ token: `token-${++this.#issued}-of-${encodeURIComponent(accessKey)}`, ...grant });
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

  /** The n-th request made, counted from 0; negative from the end. */
  call(index: number): ScriptedCall {
    const found = this.calls.at(index);
    if (!found) throw new Error(`only ${this.calls.length} requests were made; there is no number ${index}`);
    return found;
  }

  /** How many requests were made for this owner. */
  countFor(accessKey: string): number {
    return this.calls.filter((call) => call.accessKey === accessKey).length;
  }

  async close(): Promise<void> {
    this.closed++;
  }
}
