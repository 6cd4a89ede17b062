import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { checkName, checkTls, clockDifference } from '../../../src/cli/doctor/network.ts';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from '../../helpers/loopback-certificate.ts';

const server = createServer({ key: LOOPBACK_KEY, cert: LOOPBACK_CERTIFICATE });
const never = new AbortController().signal;
const trust = { tls: { ca: LOOPBACK_CERTIFICATE } };
beforeAll(() => new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve)));
afterAll(() => server.close());

const urlOf = (host: string) => new URL(`https://${host}:${(server.address() as AddressInfo).port}`);

describe('a certificate', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it.each(['127.0.0.1', 'localhost'])(
    'issued for %s by a trusted authority is valid for some more days',
    async (host) => {
      const { status, text, facts } = await checkTls(urlOf(host), never, trust);
      expect({ status, protocol: facts?.protocol }).toEqual({ status: 'ok', protocol: 'TLSv1.3' });
      // It expires in 2120.
      expect(facts?.daysLeft).toBe(Math.floor((Date.UTC(2120, 0, 1) - Date.now()) / 86_400_000));
      expect(text).toContain(`valid for ${facts?.daysLeft} more days`);
    },
  );

  it.each([
    [14, 'ok'],
    [13, 'warning'],
    [4, 'warning'],
    [1, 'warning'],
  ])('that is valid for %i more days is reported as %s', async (days, status) => {
    // Half a day before its last days begin.
    vi.spyOn(Date, 'now').mockReturnValue(Date.UTC(2120, 0, 1) - (days + 0.5) * 86_400_000);
    expect(await checkTls(urlOf('localhost'), never, trust)).toMatchObject({ status, facts: { daysLeft: days } });
  });

  it('for another name is invalid, with the reason', async () => {
    expect(await checkTls(urlOf('0.0.0.0'), never, trust)).toMatchObject({
      status: 'failed',
      facts: { problem: 'ERR_TLS_CERT_ALTNAME_INVALID' },
      advice: expect.stringContaining('OTR_BASE_URL'),
    });
  });
});

it.each([
  ['127.255.255.254', 'loopback'],
  ['[::1]', 'loopback'],
  ['10.1.2.3', 'private network'],
  ['172.16.0.1', 'private network'],
  ['172.31.255.254', 'private network'],
  ['172.32.0.1', 'public internet'],
  ['192.168.255.1', 'private network'],
  ['192.169.0.1', 'public internet'],
  ['100.127.255.254', 'private network'],
  ['100.128.0.1', 'public internet'],
  ['169.254.169.254', 'link-local'],
  ['[febf::1]', 'link-local'],
  ['[fdff::1]', 'private network'],
  ['[2001:db8::1]', 'public internet'],
])('the address %s is in the %s', async (host, kind) => {
  expect(await checkName(new URL(`https://${host}`), { tls: {} })).toMatchObject({ facts: { kinds: [kind] } });
});

it('plain http to another machine is a warning', async () => {
  expect(await checkTls(new URL('http://192.0.2.1'), never, { tls: {} })).toMatchObject({ status: 'warning' });
});

describe('the difference of clocks', () => {
  const date = 'Thu, 01 Jan 2026 00:00:00 GMT';
  const dateMs = Date.parse(date);
  const difference = (sentMs: number, receivedMs: number) => clockDifference({ sentMs, receivedMs, date });

  it('is a range as wide as the exchange plus the second that Date is rounded to', () => {
    expect(difference(dateMs + 100, dateMs + 300)).toMatchObject({
      status: 'ok',
      facts: { leastMs: -300, mostMs: 900 },
    });
  });

  it('is a warning from five seconds on', () => {
    expect(difference(dateMs - 4_999, dateMs - 4_999)).toMatchObject({
      status: 'ok',
      text: expect.stringMatching(/5\.0 s to 6\.0 s ahead/),
    });
    expect(difference(dateMs - 5_000, dateMs - 5_000).status).toBe('warning');
    expect(difference(dateMs + 6_000, dateMs + 6_000)).toMatchObject({
      status: 'warning',
      text: expect.stringContaining('behind'),
    });
  });

  it('is unknown without a valid Date header', () => {
    for (const date of ['canary', undefined]) {
      expect(clockDifference({ sentMs: 0, receivedMs: 0, date })).toEqual({
        status: 'skipped',
        text: 'no response with a Date header',
      });
    }
  });
});
