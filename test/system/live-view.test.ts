import { hasSubscribers } from 'node:diagnostics_channel';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Clock, OwnerTokenError, OwnerTokenRegistry } from '../../src/index.ts';
import { type LiveViewOptions, liveView } from '../../src/live-view/index.ts';
import { launch, type Opened, open, seriousViolations, skipsBrowser, WAIT_MS } from '../helpers/browser.ts';
import { keys } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

let browser: Browser;
let server: http.Server;
let opened: Opened;
let page: Page;
const registries: OwnerTokenRegistry[] = [];

/** What the browser's console may report in the current test. */
let expected: RegExp | undefined;

const refused = () => new OwnerTokenError('owner_refused', 'the token service refused the access key', { status: 400 });

/** A registry whose owners are called `customer 1` and so on; those with a key in `dead` are refused. */
async function registryOf(
  owners: number,
  { dead = [] as string[], name = 'crm', clock = undefined as Clock | undefined } = {},
) {
  const source = new ScriptedSource((call) =>
    dead.includes(call.accessKey) ? call.fail(refused()) : call.succeed({ response: { expires_in: 3600 } }),
  );
  const ownerLabel = (accessKey: string) => accessKey.replace('key-', 'customer ');
  const registry = new OwnerTokenRegistry({ source, ownerLabel, name, clock });
  registries.push(registry);
  for (const accessKey of keys(owners)) await registry.getToken(accessKey).catch(() => {});
  return { registry, source };
}

async function listen(handler: http.RequestListener, port = 0): Promise<number> {
  server = http.createServer(handler).listen(port, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

async function stop(): Promise<void> {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
}

/** Opens the page at the mount path, without its slash. Returns the port. */
async function show(
  shown: OwnerTokenRegistry | OwnerTokenRegistry[],
  options: LiveViewOptions = { public: true },
  context: Parameters<typeof open>[2] = {},
): Promise<number> {
  const port = await listen(liveView(shown, options).node);
  opened = await open(browser, `http://127.0.0.1:${port}/ops/tokens`, context);
  page = opened.page;
  await page.getByText('Connected').waitFor();
  return port;
}

const figure = (name: string) => page.locator('.figures > div').filter({ hasText: name }).locator('dd');
const attention = () =>
  page.getByRole('region', { name: 'Owners that need attention, worst first' }).locator('tbody tr');
/** As it is laid out: cells apart, and nothing that is hidden. */
// biome-ignore lint/performance/useDomNodeTextContent: the layout is wanted
const textOf = (locator: Locator) => locator.innerText();
const lanes = async () => (await page.locator('canvas.lanes').getAttribute('aria-label')) ?? '';

/** Waits until the page shows what it should. */
const shows = (read: () => Promise<unknown>) => expect.poll(read, { timeout: WAIT_MS, interval: 25 });

describe.skipIf(skipsBrowser)('in Chromium', { timeout: 60_000 }, () => {
  beforeAll(async () => {
    browser = await launch();
  }, 120_000);

  afterAll(() => browser?.close());

  afterEach(async () => {
    const troubles = opened.troubles.filter((trouble) => !expected?.test(trouble));
    expected = undefined;
    await page.context().close();
    await stop();
    for (const registry of registries.splice(0)) await registry.close();
    expect(troubles).toEqual([]);
  });

  it('the live view loads nothing from elsewhere, below the mount path with a slash, and says which replica it shows', async () => {
    const { registry } = await registryOf(1);
    const port = await show(registry);
    expect(opened.loaded.filter((url) => !url.startsWith(`http://127.0.0.1:${port}/ops/tokens`))).toEqual([]);
    await page.getByText(new RegExp(`process ${process.pid}, started \\d\\d:\\d\\d:\\d\\d`)).waitFor();
    await shows(() => textOf(figure('Owners with a token'))).toMatch(/^1\s+of 1/);
    await shows(lanes).toMatch(/^1 lane, 1 min: no requests/);
  });

  it('the live view says that a registry is empty, and shows its first owner without a reload', async () => {
    const { registry } = await registryOf(0);
    await show(registry);
    await page.getByText('No owner has asked for a token yet.').waitFor();
    await page.getByText('No token requests since this page was opened.').waitFor();
    expect(await seriousViolations(page)).toEqual([]);
    await registry.getToken('key-1');
    await shows(lanes).toMatch(/^1 lane, 1 min: 1 × 200/);
    await page.getByText('None: no owner fails.').waitFor();
  });

  it('the live view shows of 200 owners which fail, since when, why and until when, and finds the others', async () => {
    const { registry } = await registryOf(200, { dead: ['key-7', 'key-70'] });
    await show(registry);
    await shows(() => attention().count()).toBe(2);
    expect(await attention().allInnerTexts()).toEqual(
      ['7', '70'].map((number) =>
        expect.stringMatching(
          new RegExp(`customer ${number}\\s.*none.*The token service refused the access key owner_refused 400\\s`, 's'),
        ),
      ),
    );
    await shows(() => textOf(figure('Failing owners'))).toMatch(/^2[\s▲]+2 of them without a token/);
    await page.getByLabel('Label or fingerprint').fill('customer 19');
    const found = page.getByRole('region', { name: 'Owners found' }).locator('tbody tr');
    await shows(() => found.count()).toBe(11);
    expect(await textOf(found.first())).toMatch(/valid for/);
    await shows(lanes).toMatch(/^11 lanes/);
    expect(page.url()).not.toContain('customer');
    const name = page.locator('.lane-name').last();
    const owner = await textOf(name);
    await name.click();
    await shows(() => page.getByLabel('Label or fingerprint').inputValue()).toBe(owner);
    await shows(() => found.count()).toBe(1);
  });

  it('the live view shows one owner of 10,000 that begins to fail, and its recovery', async () => {
    const { registry, source } = await registryOf(10_000);
    await show(registry);
    await shows(() => textOf(figure('Owners with a token'))).toMatch(/^10,000\s+of 10,000/);
    source.script((call) => call.fail(refused()));
    registry.reject('key-5000', await registry.getToken('key-5000'));
    await registry.getToken('key-5000').catch(() => {});
    await shows(() => attention().allInnerTexts()).toEqual([expect.stringContaining('customer 5000')]);
    source.script((call) => call.succeed());
    registry.resume('key-5000');
    await registry.getToken('key-5000');
    await page.getByText('None: no owner fails.').waitFor();
    // The owners used last, and the one that failed.
    await shows(lanes).toMatch(/^201 lanes/);
  });

  it('the live view says whose fault it is when the endpoint fails for all, and when the next attempt is', async () => {
    const { registry, source } = await registryOf(3);
    await show(registry);
    expect(await textOf(figure('Endpoint'))).toMatch(/^works/);
    const given = { failureScope: 'endpoint', retryAfterMs: 30_000, status: 503 } as const;
    source.script((call) => call.fail(new OwnerTokenError('endpoint_unavailable', 'the service is down', given)));
    await registry.getToken('key-9').catch(() => {});
    const down = /^fails[\s▲]+endpoint_unavailable, 1 failure in a row; next attempt in \d+ s, at \d\d:\d\d:\d\d/;
    await shows(() => textOf(figure('Endpoint'))).toMatch(down);
    expect(await seriousViolations(page)).toEqual([]);
  });

  it('the live view shows an outage of the API as one fact, and its end', async () => {
    // For the registry no time passes, in which it would no longer know.
    const [startMs, owners] = [Date.now(), keys(60)];
    const { registry } = await registryOf(60, { clock: { now: () => startMs, monotonic: () => 0 } });
    await show(registry);
    expect(await textOf(figure('Owners the API rejects'))).toMatch(/^0\s+none/);
    for (const accessKey of [...owners, ...owners]) registry.reject(accessKey, await registry.getToken(accessKey));
    await page.getByRole('heading', { name: 'The API rejects the tokens of 60 owners' }).waitFor();
    await shows(() => textOf(figure('Owners the API rejects'))).toMatch(/^60[\s▲]+the first for \d+ s/);
    await shows(() => textOf(figure('Failing owners'))).toMatch(/^0\s+none/);
    await page.getByText('No token request fails.').waitFor();
    const rejected = page.getByRole('region', { name: 'Owners whose tokens the API rejects' }).locator('tbody tr');
    await shows(() => rejected.count()).toBe(50);
    expect(await textOf(rejected.first())).toMatch(/customer 1\s.*rejected, but given out.*token_rejected/s);
    await page.getByText('50 of 60. The search finds the others.').waitFor();
    expect(await seriousViolations(page)).toEqual([]);
    for (const accessKey of owners) registry.accept(accessKey, await registry.getToken(accessKey));
    await page.getByText('None: no owner fails.').waitFor();
    expect(await page.getByRole('heading', { name: 'The API rejects' }).count()).toBe(0);
  });

  it('the live view connects again by itself, and says that the process has restarted', async () => {
    const { registry } = await registryOf(1);
    const port = await show(registry);
    expected = /ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY/;
    await stop();
    await page.getByText('Connection lost, trying again').waitFor();
    await registry.getToken('key-2');
    const later = liveView(registry, { public: true });
    await listen((req, res) => {
      // As if of a process that started later: the start is the only difference between the two that the page can see.
      const write = res.write.bind(res) as (text: string) => boolean;
      const startedAt = /"startedAtMs":\d+/;
      res.write = ((text: string) => write(text.replace(startedAt, `"startedAtMs":${Date.now()}`))) as typeof res.write;
      later.node(req, res);
    }, port);
    await page.getByText('The process has restarted.').waitFor();
    await page.getByText('Connected').waitFor();
    await shows(() => textOf(figure('Owners with a token'))).toMatch(/^2\s+of 2/);
  });

  it('the live view says that the session has ended when the host refuses the page', async () => {
    const { registry } = await registryOf(1);
    let allowed = true;
    await show(registry, { authorize: () => allowed });
    expected = /ERR_INCOMPLETE|403/;
    allowed = false;
    server.closeAllConnections();
    await page.getByText('You may no longer see this page: sign in again').waitFor();
    allowed = true;
    await page.getByText('Connected').waitFor();
  });

  it('the live view closes its stream while it is hidden', async () => {
    const { registry } = await registryOf(1);
    await show(registry);
    const hide = (state: string) =>
      page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));`);
    const isRecorded = async () => hasSubscribers('tracing:owner-token-registry:request:start');
    expect(await isRecorded()).toBe(true);
    await hide('hidden');
    await shows(isRecorded).toBe(false);
    await registry.getToken('key-2');
    const before = await textOf(figure('Owners with a token'));
    await hide('visible');
    await shows(() => textOf(figure('Owners with a token'))).toMatch(/^2\s+of 2/);
    expect(before).toMatch(/^1\s+of 1/);
  });

  it('the live view looks up an owner by its access key where that is allowed, and keeps the key nowhere', async () => {
    const { registry } = await registryOf(3);
    await show(registry, { public: true, accessKeySearch: true });
    const field = page.getByLabel('Access key');
    await field.fill('key-2');
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: 'Owners found' }).getByText('customer 2').waitFor();
    expect(await field.inputValue()).toBe('');
    const kept =
      'JSON.stringify([document.documentElement.outerHTML, location.href, { ...localStorage }, { ...sessionStorage }])';
    expect(await page.evaluate(kept)).not.toContain('key-2');
    expect(opened.loaded.filter((url) => url.includes('key-2'))).toEqual([]);
  });

  it('the live view shows several registries, one at a time, and which of them need attention', async () => {
    const [crm, billing] = [await registryOf(5), await registryOf(3, { name: 'billing', dead: ['key-1'] })];
    await show([crm.registry, billing.registry]);
    await shows(() => textOf(figure('Owners with a token'))).toMatch(/^5\s+of 5/);
    await page.getByRole('button', { name: /^billing.*fails$/ }).click();
    await shows(() => textOf(figure('Owners with a token'))).toMatch(/^2\s+of 3/);
    await shows(() => attention().allInnerTexts()).toEqual([expect.stringContaining('customer 1')]);
  });

  it('the live view can be used with the keyboard alone: registry, search, time and table', async () => {
    const { registry } = await registryOf(4);
    await show(registry);
    await registry.getToken('key-5');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.id')).toBe('main');
    await page.getByRole('slider', { name: 'Token requests over time' }).focus();
    for (let press = 0; press < 15; press++) await page.keyboard.press('Shift+ArrowLeft');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Back to now' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Table' }).focus();
    await page.keyboard.press('Enter');
    const rows = page.locator('.lanes-section tbody tr');
    await shows(() => rows.count()).toBe(5);
    expect(await textOf(rows.nth(4))).toMatch(/customer 5\s+● valid for .*\s1\s+0\s+0\s+200/s);
  });

  it.each([
    ['a desktop in light colours', { colorScheme: 'light' }],
    ['a desktop in dark colours', { colorScheme: 'dark' }],
    ['a phone', { viewport: { width: 390, height: 800 }, hasTouch: true }],
    ['forced colours', { forcedColors: 'active' }],
  ] as const)(
    'the live view has no serious violation of accessibility, and nothing wider than the screen, on %s',
    async (_, context) => {
      const { registry } = await registryOf(30, { dead: ['key-3', 'key-4'] });
      await show(registry, { public: true, accessKeySearch: true }, context as Parameters<typeof open>[2]);
      await shows(() => attention().count()).toBe(2);
      await page.getByLabel('Label or fingerprint').fill('customer');
      await page.getByRole('region', { name: 'Owners found' }).waitFor();
      expect(await seriousViolations(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    },
  );
});
