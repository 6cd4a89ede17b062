import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  dateMsOf,
  describeFailure,
  type HttpFailure,
  isHtml,
  kindOfError,
  retryAfterMsOf,
} from '../src/http-failure.ts';

const NOW_MS = Date.UTC(2030, 0, 1);

describe('Retry-After', () => {
  it.each([
    ['120', 120_000],
    [' 7 ', 7_000],
    ['1', 1_000],
    ['3600', 3_600_000],
    ['3601', 3_601_000],
    ['20.5', 20_500],
    ['0.5', 500],
    ['20.', 20_000],
    ['20s', 20_000],
    ['20 seconds', 20_000],
    ['20, 20', 20_000],
    ['999999999999', 999_999_999_999_000],
    ['9'.repeat(400), Number.MAX_SAFE_INTEGER],
    ['Tue, 01 Jan 2030 00:02:00 GMT', 120_000],
    ['Tuesday, 01-Jan-30 00:02:00 GMT', 120_000],
    ['Tue Jan  1 00:02:00 2030', 120_000],
    ['Tue, 01 Jan 2999 00:00:00 GMT', Date.UTC(2999, 0, 1) - NOW_MS],
    ['Tue, 1 Jan 2030 00:02:00 UTC', 120_000],
    ['Tue, 01 Jan 2030 01:02:00 +0100', 120_000],
    ['01 Jan 2030 00:02:00 -0000', 120_000],
    ['Tue, 01 Jan 2030 00:02:00 GMT, Tue, 01 Jan 2030 00:02:00 GMT', 120_000],
    ['2030-01-01T00:02:00Z', 120_000],
    ['2030-01-01T01:02:00.5+01:00', 120_500],
    [String(NOW_MS / 1_000 + 120), 120_000],
  ])('of %j is %i ms', (value, expected) => {
    expect(retryAfterMsOf({ retryAfter: value }, NOW_MS)).toBe(expected);
    const date = new Date(NOW_MS).toUTCString();
    expect(retryAfterMsOf({ retryAfter: value, date }, NOW_MS - 9e8)).toBe(expected);
  });

  it('counts from our clock if the Date of the response cannot be read', () => {
    expect(retryAfterMsOf({ retryAfter: 'Tue, 01 Jan 2030 00:02:00 GMT', date: 'today' }, NOW_MS)).toBe(120_000);
  });

  it.each([
    '',
    'soon',
    '-5',
    '0',
    '0.0',
    'Mon, 31 Dec 2029 00:00:00 GMT',
    'Tue, 01 Jan 2030 00:00:00 GMT',
    'Thu, 01 Jan 1970 00:00:00 GMT',
    String(NOW_MS / 1_000 - 120),
    '1e3',
    '.5.5',
    '0x10',
    'soon, 120',
    'PT20S',
    '2030-01-01T00:02:00',
    'Tue, 99 Foo 2030 00:02:00 GMT',
    undefined,
  ])('of %j is nothing', (value) => {
    expect(retryAfterMsOf({ retryAfter: value }, NOW_MS)).toBeUndefined();
  });

  it('takes no time to read, however long it is', () => {
    for (const value of [`1${' '.repeat(1e6)}x`, `${'a '.repeat(1e6)}00:00:00`, `a${' '.repeat(1e6)}00:00`]) {
      expect(retryAfterMsOf({ retryAfter: value, date: value }, NOW_MS)).toBeUndefined();
    }
  });

  it('is always undefined, or finite and positive', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.integer(), (retryAfter, date, nowMs) => {
        const ms = retryAfterMsOf({ retryAfter, date }, nowMs);
        return ms === undefined || (ms > 0 && Number.isFinite(ms));
      }),
    );
  });
});

it.each(['', 'now', undefined, '2030', 'Tue, 01 Jan 2030', '00:02:00'])('a Date of %j is nothing', (value) => {
  expect(dateMsOf(value)).toBeUndefined();
});

it.each([100, 103, 199])('a status of %i is the endpoint’s', (status) => {
  const [code] = describeFailure({ name: 'it', url: 'baseUrl' }, { kind: 'status', status });
  expect(code).toBe('endpoint_unavailable');
});

it.each([
  // nginx, byte by byte.
  '<html>\r\n<head><title>400 No required SSL certificate was sent</title></head>\r\n<body>\r\n<center>',
  '<!DOCTYPE HTML PUBLIC "-//IETF//DTD HTML 2.0//EN">\n<html><head>', // Apache
  '<html><body><h1>403 Forbidden</h1>\nRequest forbidden by administrative rules.\n</body></html>', // HAProxy
  '<!DOCTYPE html>\n<!--[if lt IE 7]> <html class="no-js ie6 oldie" lang="en-US"> <![endif]-->', // Cloudflare
  '<HTML><HEAD>\n<TITLE>Access Denied</TITLE>', // Akamai
  '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE html>',
  '\ufeff\n <!-- blocked -->\n<!-- by policy --><html>',
  '<h1>Bad Request</h1>',
])('an HTML page is recognized by its beginning: %j', (page) => {
  expect(isHtml(page)).toBe(true);
});

it.each([
  ...['', 'upstream connect error', '{"error":"<html>"}', '<error>no</error>', '<?xml version="1.0"?><error/>'],
  ...['see <html>', '<htmlx>', '<headers>', undefined, { page: '<html>' }],
])('an HTML page is not %j', (body) => {
  expect(isHtml(body)).toBe(false);
});

it('an HTML page takes no time to recognize, however a long text begins', () => {
  expect(isHtml(`${'<!--'.repeat(20_000)}<html>`)).toBe(false);
  expect(isHtml(`${'<!---->'.repeat(100)}x`)).toBe(false);
});

describe('the kind of an error', () => {
  const errorWith = (code: string, cause?: unknown) => Object.assign(new Error('?', { cause }), { code });
  /** As `fetch` reports that no address can be reached. */
  const fetchFailed = (...errors: Error[]) => new TypeError('fetch failed', { cause: new AggregateError(errors) });

  it.each<[HttpFailure['kind'], string[]]>([
    [
      'network',
      [
        ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EADDRNOTAVAIL', 'ECONNRESET'],
        ...['EPIPE', 'UND_ERR_SOCKET', 'HPE_INVALID_EOF_STATE', 'ERR_STREAM_PREMATURE_CLOSE', 'UND_ERR_ABORTED'],
      ],
    ],
    [
      'tls',
      [
        ...['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID'],
        ...['ERR_TLS_CERT_ALTNAME_INVALID', 'ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION'],
        ...['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'HOSTNAME_MISMATCH'],
        ...['INVALID_CA', 'EPROTO'],
      ],
    ],
    ['timeout', ['ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']],
    [
      'body',
      [
        ...['HPE_INVALID_CONSTANT', 'HPE_HEADER_OVERFLOW', 'HPE_INVALID_CHUNK_SIZE', 'Z_DATA_ERROR', 'Z_BUF_ERROR'],
        ...['ERR_BUFFER_TOO_LARGE', 'ERR__ERROR_FORMAT_PADDING_1', 'ERR_BROTLI_DECODER_ERROR_UNREACHABLE'],
        ...['ERR_UNUSABLE_BODY', 'UND_ERR_HEADERS_OVERFLOW', 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'UND_ERR_RESPONSE'],
      ],
    ],
  ])('is %s for its codes, in the error itself or in a cause', (kind, codes) => {
    for (const code of codes) {
      const error = errorWith(code);
      const kinds = [error, errorWith('?', error), fetchFailed(errorWith('?'), error)].map(kindOfError);
      expect([code, ...kinds]).toEqual([code, kind, kind, kind]);
    }
  });

  it('is that of its name where it has no code, as the parser errors of undici', () => {
    const nameless = Object.assign(new Error('?'), { name: 'HTTPParserError' });
    expect(kindOfError(new TypeError('terminated', { cause: nameless }))).toBe('body');
  });

  it('is unknown of any other value, even one whose causes are a ring', () => {
    const ring: { cause?: unknown } = {};
    ring.cause = ring;
    for (const error of [ring, errorWith('?'), null, undefined, 'text', 7]) expect(kindOfError(error)).toBeUndefined();
  });
});
