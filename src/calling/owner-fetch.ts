/**
 * Calls to the service's resources on one owner's behalf: a `fetch` that attaches the owner's token, and learns from
 * the answer whether it was good.
 *
 * Three things make it more than a header. A token goes to allowed origins only, so redirects are followed here, hop by
 * hop, each checked like the first. A 401 rejects exactly the token that was sent, and the exchange that was refused
 * (not those before it: a POST that was redirected has been carried out) is made once more with another one. And what
 * was accepted or refused is reported, for expiry policies that learn.
 */

import { OwnerTokenError } from '../errors.ts';
import { OptionCheck } from '../option-check.ts';
import type { AccessToken } from '../token.ts';
import { discard, failed, firstHop, type Hop, nextHop, sentAgain } from './redirect-hops.ts';

/** How calls for an owner are made. */
export interface OwnerFetchOptions {
  /**
   * Where the token may be sent: origins such as `https://api.example.com`, replacing the default, which is the
   * source's `origin`. A call or redirect to any other is `origin_refused`, and nothing is sent.
   */
  allowedOrigins?: string[];
  /** How the token is presented. Default: `headers.set('authorization', token.authorization)`. */
  present?: (token: AccessToken, headers: Headers) => void;
  /** What makes the calls. Default: the global `fetch`, as it is at the time of the call. */
  fetch?: typeof fetch;
}

/** Every option that there is. */
export const OWNER_FETCH_OPTIONS: readonly (keyof OwnerFetchOptions & string)[] = [
  'allowedOrigins',
  'present',
  'fetch',
];

/** What calls are built on; a registry has it. */
export interface OwnerTokens {
  getToken(accessKey: string, options?: { signal?: AbortSignal }): Promise<AccessToken>;
  reject(accessKey: string, token: AccessToken): boolean;
  accept(accessKey: string, token: AccessToken): void;
}

/**
 * A `fetch` for one owner. A client that can be handed a `fetch` needs nothing else; the methods are for clients that
 * cannot, and the adapters are made of them.
 */
export interface OwnerFetch {
  (input: string | URL | Request, init?: RequestInit): Promise<Response>;
  /** @throws OwnerTokenError `origin_refused`, where the token may not go to this URL. */
  check(url: string | URL): void;
  /** Checks the URL, obtains a token for it, and presents it in these headers. */
  authorize(
    url: string | URL,
    headers: Headers,
    options?: { signal?: AbortSignal | null | undefined },
  ): Promise<AccessToken>;
  /**
   * Tells how a call with this token was answered: 401 rejects it, success accepts it. True: it was refused, and the
   * call may be made once more with another one, if its body can be sent again.
   */
  answered(token: AccessToken, status: number): boolean;
}

/** Options that were checked, put together with their defaults. */
export interface CallRules {
  readonly origins: ReadonlySet<string>;
  readonly present: ((token: AccessToken, headers: Headers) => void) | undefined;
  readonly fetch: typeof fetch | undefined;
}

/** Records what is wrong with such options. */
export function checkOwnerFetchOptions(check: OptionCheck<OwnerFetchOptions>): void {
  const origins = (value: unknown) => Array.isArray(value) && value.every((entry) => originOf(entry) !== undefined);
  check.when('allowedOrigins', origins, 'a list of origins, each like https://api.example.com');
  check.functions('present', 'fetch');
}

/** The rules of a registry without any options: tokens may go where they come from, if that is known. */
export function rulesOfSource(origin: string | undefined): CallRules {
  const known = originOf(origin);
  return { origins: new Set(known === undefined ? [] : [known]), present: undefined, fetch: undefined };
}

/** Checks options and puts them over the defaults. */
export function callRules(options: OwnerFetchOptions | undefined, defaults: CallRules): CallRules {
  if (options === undefined) return defaults;
  const check = new OptionCheck<OwnerFetchOptions>('ownerFetch', options, OWNER_FETCH_OPTIONS);
  checkOwnerFetchOptions(check);
  check.done();
  return mergeCallRules(options, defaults);
}

/** Puts checked options over the defaults. */
export function mergeCallRules(options: OwnerFetchOptions | undefined, defaults: CallRules): CallRules {
  const listed = options?.allowedOrigins?.map((entry) => originOf(entry) as string);
  return {
    origins: listed ? new Set(listed) : defaults.origins,
    present: options?.present ?? defaults.present,
    fetch: options?.fetch ?? defaults.fetch,
  };
}

/** Makes the `fetch` of one owner. */
export function ownerFetchFor(tokens: OwnerTokens, accessKey: string, rules: CallRules): OwnerFetch {
  const check: OwnerFetch['check'] = (url) => {
    if (typeof url === 'string' && beginsWithOrigin(url, rules.origins)) return;
    const { origin } = typeof url === 'string' ? new URL(url) : url;
    if (!rules.origins.has(origin)) throw refusedOrigin(origin, rules);
  };

  const obtain = (url: string | URL, signal: AbortSignal | null | undefined): Promise<AccessToken> => {
    check(url);
    return tokens.getToken(accessKey, signal ? { signal } : undefined);
  };

  const authorize: OwnerFetch['authorize'] = async (url, headers, options) => {
    const token = await obtain(url, options?.signal);
    present(rules, token, headers);
    return token;
  };

  const answered: OwnerFetch['answered'] = (token, status) => {
    if (status === 401) tokens.reject(accessKey, token);
    else if (showsAcceptance(status)) tokens.accept(accessKey, token);
    return status === 401;
  };

  const send = (hop: Hop, token: AccessToken): Promise<Response> => {
    const headers = new Headers(hop.headers);
    present(rules, token, headers);
    return (rules.fetch ?? fetch)(hop.target, { ...hop.init, headers });
  };

  // One async function, because each one more costs a warm call about a microsecond.
  const call = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    let hop = firstHop(input, init);
    let repeated = false;
    for (let redirects = 0; ; redirects++) {
      const token = await obtain(hop.url, hop.signal);
      let response = await send(hop, token);
      const again = answered(token, response.status) && !repeated ? sentAgain(hop) : undefined;
      if (again) {
        repeated = true;
        discard(response);
        const other = await obtain(hop.url, hop.signal);
        if (other.value === token.value) throw givenAgain();
        response = await send(again, other);
        answered(other, response.status);
      }
      const next = nextHop(hop, response);
      if (!next) return redirects === 0 ? response : Object.defineProperty(response, 'redirected', { value: true });
      if (redirects === MAX_REDIRECTS) throw failed('too many redirects', response);
      discard(response);
      hop = next;
    }
  };

  return Object.assign(call, { check, authorize, answered });
}

/** As many redirects as the fetch standard follows. */
const MAX_REDIRECTS = 20;

/**
 * Whether a status shows that the token was accepted: success, and "not modified", which is one. Not a redirect, 403,
 * 404, 429 or 5xx: services send these before they look at a token, and a lifetime learned from them would be too long.
 */
function showsAcceptance(status: number): boolean {
  return (status >= 200 && status <= 299) || status === 304;
}

function present(rules: CallRules, token: AccessToken, headers: Headers): void {
  try {
    if (rules.present) rules.present(token, headers);
    else headers.set('authorization', token.authorization);
  } catch (cause) {
    throw new OwnerTokenError('source_failed', 'present() threw', { cause });
  }
}

function refusedOrigin(origin: string, { origins }: CallRules): OwnerTokenError {
  const where =
    origins.size > 0 ? `it may go to ${[...origins].join(', ')}` : 'no origin is known: give allowedOrigins';
  return new OwnerTokenError('origin_refused', `the token may not be sent to ${origin}; ${where}`);
}

/** A registry does not do this; another maker of tokens may. */
function givenAgain(): OwnerTokenError {
  return new OwnerTokenError('token_rejected', 'the token that was just refused was given again');
}

/**
 * Whether a URL is of one of these origins, as far as can be told without parsing it. After scheme, host, port and a
 * slash, nothing in a URL changes its origin; whatever is written in another way is parsed.
 */
function beginsWithOrigin(url: string, origins: ReadonlySet<string>): boolean {
  for (const origin of origins) if (url.startsWith(origin) && url[origin.length] === '/') return true;
  return false;
}

/** The origin that a text names, with or without a slash after it; undefined for anything else. */
function originOf(text: unknown): string | undefined {
  if (typeof text !== 'string' || !URL.canParse(text)) return undefined;
  const { protocol, origin, href } = new URL(text);
  return /^https?:$/.test(protocol) && href === `${origin}/` ? origin : undefined;
}
