import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Clock, OwnerTokenError, OwnerTokenRegistry } from '../../src/index.ts';
import { type LiveViewOptions, liveView } from '../../src/live-view/index.ts';
import { countWord } from '../../src/page-engine/words.ts';
import { launch, type Opened, open, seriousViolations, skipsBrowser, WAIT_MS } from '../helpers/browser.ts';
import { INCIDENTS, type Incident, playIncident } from '../helpers/incidents.ts';
import { settle } from '../helpers/manual-clock.ts';
import { keys } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';
import { MIN } from '../world/setting.ts';

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
const verdict = () => page.locator('.verdict .sentence');
/** The rows of a cause that is open. */
const rowsOf = (cause: string) => page.getByRole('region', { name: `Owners: ${cause}` }).locator('tbody tr');
/** As it is laid out: cells apart, and nothing that is hidden. */
// biome-ignore lint/performance/useDomNodeTextContent: the layout is wanted
const textOf = (locator: Locator) => locator.innerText();
const lanes = async () => (await page.locator('canvas.lanes').getAttribute('aria-label')) ?? '';

/** Waits until the page shows what it should. */
const shows = (read: () => Promise<unknown>) => expect.poll(read, { timeout: WAIT_MS, interval: 25 });

describe.skipIf(skipsBrowser)('the live view in Chromium', { timeout: 60_000 }, () => {
  beforeAll(async () => {
    browser = await launch();
  }, 120_000);

  afterAll(() => browser?.close());

  beforeEach(() => {
    // As if the process had run for long: what fails in its first minute is said to be older, perhaps.
    vi.spyOn(performance, 'timeOrigin', 'get').mockReturnValue(Date.now() - 3_600_000);
  });

  afterEach(async () => {
    const troubles = opened.troubles.filter((trouble) => !expected?.test(trouble));
    expected = undefined;
    await page.context().close();
    await stop();
    for (const registry of registries.splice(0)) await registry.close();
    expect(troubles).toEqual([]);
  });

  it('loads nothing from elsewhere, below the mount path with a slash, and says which replica it shows', async () => {
    const { registry } = await registryOf(1);
    const port = await show(registry);
    expect(opened.loaded.filter((url) => !url.startsWith(`http://127.0.0.1:${port}/ops/tokens`))).toEqual([]);
    await page.getByText(new RegExp(`process ${process.pid}, started \\d\\d:\\d\\d:\\d\\d`)).waitFor();
    await shows(() => textOf(figure('Owners that cannot be served'))).toMatch(/^0\s+of 1/);
    expect(await textOf(verdict())).toBe('The only owner is served.');
    await shows(lanes).toMatch(/^1 lane, 1 min: no requests/);
  });

  it('says that a registry is empty, and shows its first owner without a reload', async () => {
    const { registry } = await registryOf(0);
    await show(registry);
    await page.locator('.verdict').getByText('No owner has asked for a token yet.').waitFor();
    await page.getByText('No token requests since then.').waitFor();
    expect(await seriousViolations(page)).toEqual([]);
    await registry.getToken('key-1');
    await shows(lanes).toMatch(/^1 lane, 1 min: 1 × 200/);
    await page.getByText('None: no owner fails.').waitFor();
  });

  it('shows of 200 owners which fail, since when, why and until when, and finds the others', async () => {
    const { registry } = await registryOf(200, { dead: ['key-7', 'key-70'] });
    await show(registry);
    await shows(() => rowsOf('owner_refused-400').count()).toBe(2);
    expect(await rowsOf('owner_refused-400').allInnerTexts()).toEqual(
      ['7', '70'].map((number) =>
        expect.stringMatching(
          new RegExp(`customer ${number}\\s.*none.*The token service refused the access key owner_refused 400\\s`, 's'),
        ),
      ),
    );
    await shows(() => textOf(figure('Owners that cannot be served'))).toMatch(/^2[\s▲]+of 200/);
    expect(await textOf(verdict())).toMatch(
      /^2 owners cannot be served: refused \(400\) since [\d:]+; the others are served\.$/,
    );
    await page.getByText('Next step: get a current access key for each of these owners.').first().waitFor();
    await page.getByLabel('Label or fingerprint').fill('customer 19');
    const found = page.getByRole('region', { name: 'Owners found' }).locator('tbody tr');
    await shows(() => found.count()).toBe(11);
    expect(await textOf(found.first())).toMatch(/valid for/);
    await shows(lanes).toMatch(/^11 lanes/);
    // A key may be typed into the wrong box.
    expect(page.url()).not.toContain('customer');
    const name = page.locator('.lane-name').last();
    const owner = await textOf(name);
    await name.click();
    await shows(() => page.getByLabel('Label or fingerprint').inputValue()).toBe(owner);
    await shows(() => found.count()).toBe(1);
  });

  it('says whose fault it is when the endpoint fails for all, and when the next attempt is', async () => {
    const { registry, source } = await registryOf(3);
    await show(registry);
    expect(await textOf(figure('Token service'))).toMatch(/^works/);
    const given = { failureScope: 'endpoint', retryAfterMs: 30_000, status: 503 } as const;
    source.script((call) => call.fail(new OwnerTokenError('endpoint_unavailable', 'the service is down', given)));
    await registry.getToken('key-9').catch(() => {});
    const down = /^fails[\s▲]+since \d\d:\d\d:\d\d, next attempt at \d\d:\d\d:\d\d/;
    await shows(() => textOf(figure('Token service'))).toMatch(down);
    const sentence =
      /^The endpoint has failed since [\d:]+ \(503\)\. 1 of 4 owners cannot be served\. Next attempt at [\d:]+\. If this continues, the next owner loses service at /;
    await shows(() => textOf(verdict())).toMatch(sentence);
    await shows(() => textOf(figure('Calls that fail'))).toMatch(
      /^0\.\d\/s[\s▲]+0\.\d with their request, 0\.0 refused/,
    );
    expect(await seriousViolations(page)).toEqual([]);
  });

  it('shows a slow service as a cause of its own, since when, with the runbook, while every call is served', async () => {
    const tenants = [{ name: 'tenants', count: 60, burstMs: MIN }];
    const slow: Incident = { minutes: 2, tenants, latencyMs: 6_000, askedAtMs: [2 * MIN] };
    await playIncident(slow, async ({ registry, time }) => {
      await show(registry, { public: true, clock: time, runbooksUrl: 'https://wiki.example/runbooks' });
      const cause = page.locator('.cause.warning').filter({ hasText: 'Slow token service' });
      await shows(() => textOf(cause)).toMatch(/Tokens take 6(\.\d)? s since .*: now about \d/);
      expect(await cause.getByRole('link', { name: 'Runbook' }).getAttribute('href')).toBe(
        'https://wiki.example/runbooks#ownertokenserviceslow',
      );
      expect(await textOf(verdict())).toMatch(/^All 60 owners are served\./);
      expect(await page.locator('.verdict.warning').count()).toBe(1);
    });
  });

  it('shows an outage of the API as one fact, and its end', async () => {
    // For the registry no time passes, in which it would no longer know.
    const [startMs, owners] = [Date.now(), keys(60)];
    const { registry } = await registryOf(60, { clock: { now: () => startMs, monotonic: () => 0 } });
    await show(registry);
    for (const accessKey of [...owners, ...owners]) registry.reject(accessKey, await registry.getToken(accessKey));
    const sentence = /^All 60 owners are served\. The API has rejected the tokens of 60 owners since [\d:]+\.$/;
    await shows(() => textOf(verdict())).toMatch(sentence);
    await shows(() => textOf(figure('Owners that cannot be served'))).toMatch(/^0\s+of 60/);
    await page.getByRole('button', { name: /60 owners/ }).click();
    await shows(() => rowsOf('token_rejected').count()).toBe(50);
    expect(await textOf(rowsOf('token_rejected').first())).toMatch(
      /customer \d+\s.*rejected, but served.*token_rejected/s,
    );
    await page.getByText('50 of 60. Search for a longer part of a name to see others.').waitFor();
    expect(await seriousViolations(page)).toEqual([]);
    for (const accessKey of owners) registry.accept(accessKey, await registry.getToken(accessKey));
    await page.getByText('None: no owner fails.').waitFor();
    expect(await textOf(verdict())).toBe('All 60 owners are served.');
  });

  it('connects again by itself, and says that the process has restarted', async () => {
    const { registry } = await registryOf(1);
    const port = await show(registry);
    expected = /ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY/;
    await stop();
    await page.getByText('Connection lost, trying again').waitFor();
    await registry.getToken('key-2');
    const later = liveView(registry, { public: true });
    await listen((req, res) => {
      // As if of a process that has just started: how long it has run is all that the page can see of that. Uncompressed, to be changed.
      delete req.headers['accept-encoding'];
      const write = res.write.bind(res) as (text: string) => boolean;
      res.write = ((text: string) => write(text.replace(/"upMs":\d+/, '"upMs":1'))) as typeof res.write;
      later.node(req, res);
    }, port);
    await page.getByText('The process has restarted.').waitFor();
    await page.getByText('Connected').waitFor();
    await shows(() => textOf(verdict())).toBe('All 2 owners are served.');
  });

  it('says that the session has ended when the host refuses the page', async () => {
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

  it('closes its stream while it is hidden', async () => {
    const { registry } = await registryOf(1);
    await show(registry);
    const hide = (state: string) =>
      page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));`);
    await hide('hidden');
    await page.waitForTimeout(200);
    await registry.getToken('key-2');
    const before = await textOf(verdict());
    await hide('visible');
    await shows(() => textOf(verdict())).toBe('All 2 owners are served.');
    expect(before).toBe('The only owner is served.');
  });

  it('looks up an owner by its access key where that is allowed, and keeps the key nowhere', async () => {
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

  it('shows several registries, one at a time, and which of them need attention', async () => {
    const [crm, billing] = [await registryOf(5), await registryOf(3, { name: 'billing', dead: ['key-1'] })];
    await show([crm.registry, billing.registry]);
    await shows(() => textOf(verdict())).toBe('All 5 owners are served.');
    await page.getByRole('button', { name: /^billing.*fails$/ }).click();
    await shows(() => textOf(verdict())).toMatch(/^1 owner cannot be served: refused \(400\)/);
    await shows(() => rowsOf('owner_refused-400').allInnerTexts()).toEqual([expect.stringContaining('customer 1')]);
  });

  it('opens at an owner, a cause, a window and in UTC by a link, and keeps them when it is loaded again', async () => {
    const { registry } = await registryOf(30, { dead: keys(29).slice(4) });
    await show(registry, {
      public: true,
      runbooksUrl: 'https://wiki.example/runbooks',
      dashboardUrl: 'https://grafana.example/',
    });
    expect(await rowsOf('owner_refused-400').count()).toBe(0); // More than a few are shown only when asked for.
    const link = await page.getByRole('link', { name: 'Link to this cause' }).getAttribute('href');
    await page.getByRole('button', { name: 'UTC' }).click();
    await page.getByLabel('Last', { exact: true }).selectOption('300000');
    await page.goto(new URL(`${page.url()}&${link?.slice(1)}&owner=customer+30`).href);
    await page.reload();
    await shows(() => rowsOf('owner_refused-400').count()).toBe(25);
    const found = page.getByRole('region', { name: 'Owners found' }).locator('tbody tr');
    await shows(() => found.allInnerTexts()).toEqual([expect.stringContaining('customer 30')]);
    await shows(lanes).toMatch(/^1 lane, 5 min/);
    const utc = new Date().toISOString().slice(11, 13);
    expect(await textOf(page.locator('footer'))).toMatch(new RegExp(`started (${utc}|\\d\\d):`));
    expect(await page.getByRole('link', { name: 'Runbook' }).getAttribute('href')).toBe(
      'https://wiki.example/runbooks#ownertokencallsrefused',
    );
    expect(await page.getByRole('link', { name: 'Dashboard of all replicas' }).count()).toBe(1);
  });

  it('copies an incident as text and as JSON, or shows it where it may not', async () => {
    const { registry } = await registryOf(2, { dead: ['key-1'] });
    await show(registry, { public: true }, { permissions: ['clipboard-read', 'clipboard-write'] });
    const copied = () => page.evaluate('navigator.clipboard.readText()') as Promise<string>;
    await page.getByRole('button', { name: 'Copy as text' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    expect(await copied()).toMatch(
      /^crm, [\d:]+ UTC: 1 owner cannot be served: refused \(400\) since [\d:]+ UTC; the other one is served\.\n- owner_refused 400 since .*Get a current access key for this owner\.$/,
    );
    await page.getByRole('button', { name: 'Copy as JSON' }).click();
    await shows(
      async () => JSON.parse(await copied().then((text) => (text.startsWith('{') ? text : '{}'))).unserved,
    ).toBe(1);
    await page.evaluate('navigator.clipboard.writeText = () => Promise.reject(new Error("denied"))');
    await page.getByRole('button', { name: 'Copied' }).first().click();
    expect(await page.locator('textarea').inputValue()).toMatch(/^crm, /);
  });

  it('names a proxy that buffers the stream, when it does not begin within five seconds', async () => {
    const { registry } = await registryOf(1);
    const view = liveView(registry, { public: true });
    const port = await listen((req, res) => {
      if (req.url?.includes('/events?')) Object.assign(res, { write: () => true });
      view.node(req, res);
    });
    opened = await open(browser, `http://127.0.0.1:${port}/`, { movesTime: true });
    page = opened.page;
    await page.locator('.connection').getByText('Connecting').waitFor();
    await page.clock.runFor(5_000);
    await page.locator('.connection').getByText('A proxy probably buffers the stream').waitFor();
  });

  it('says whether replicas share tokens, and which of them it shows', async () => {
    const { registry } = await registryOf(1);
    const sharing = { sharing: true, replicas: 3, replica: 'pod-2', shared: 5, leader: 2, fallback: 1, mismatched: 0 };
    const stats = { ...sharing, refused: 0, unreadable: 0, unidentified: 0 };
    await show(registry, { public: true, fleets: { crm: { stats: () => stats } } });
    await shows(() => textOf(figure('Sharing'))).toMatch(/^3 replicas\s+5 received, 2 requested for all, 1 alone/);
    await page.getByText(/Replica pod-2, one of 3, process/).waitFor();
    stats.sharing = false;
    await shows(() => textOf(figure('Sharing'))).toMatch(
      /^off[\s▲]+since before this page was mounted, Redis is unavailable, this replica requests its own tokens/,
    );
  });

  it('shows labels that are blank, invisible or bidirectional with their fingerprints', async () => {
    const source = new ScriptedSource((call) => call.fail(refused()));
    const labels: Record<string, string> = { 'key-1': ' ', 'key-2': '\u200b', 'key-3': 'ac\u202eem', 'key-4': 'acme' };
    const registry = new OwnerTokenRegistry({ source, name: 'crm', ownerLabel: (key) => labels[key] ?? '' });
    registries.push(registry);
    for (const accessKey of keys(4)) await registry.getToken(accessKey).catch(() => {});
    await show(registry);
    const names = rowsOf('owner_refused-400').locator('th');
    await shows(() => names.allInnerTexts()).toEqual([
      expect.stringMatching(/^⟨U\+0020⟩ owner_/),
      expect.stringMatching(/^⟨U\+200B⟩ owner_/),
      expect.stringMatching(/^ac⟨U\+202E⟩em owner_/),
      'acme',
    ]);
  });

  it('can be used with the keyboard alone: registry, search, time and table', async () => {
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
    ['a desktop in light colours', { colorScheme: 'light' }, undefined],
    // These change colours and nothing else.
    ['a desktop in dark colours', { colorScheme: 'dark' }, ['color-contrast']],
    ['forced colours', { forcedColors: 'active' }, ['color-contrast']],
    ['a phone', { viewport: { width: 390, height: 800 }, hasTouch: true }, undefined],
  ] as [string, Parameters<typeof open>[2], string[] | undefined][])(
    'has no serious violation of accessibility, and nothing wider than the screen, on %s',
    async (_, context, rules) => {
      const { registry } = await registryOf(30, { dead: ['key-3', 'key-4'] });
      await show(registry, { public: true, accessKeySearch: true }, context);
      await shows(() => rowsOf('owner_refused-400').count()).toBe(2);
      await page.getByLabel('Label or fingerprint').fill('customer');
      await page.getByRole('region', { name: 'Owners found' }).waitFor();
      expect(await seriousViolations(page, rules)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    },
  );

  // One each of the endpoint, of the queue and of single owners. What the page is sent in the others: `live-view/incidents`.
  const SHOWN = ['the service is down, and all tokens have ended', 'a storm of 429s', 'a few keys are dead'] as const;

  it.each(SHOWN.map((name) => [name, INCIDENTS[name]] as const))(
    'answers in an incident who fails, why, since when, until when, whose fault it is, and what to do: %s',
    async (_, incident) => {
      await playIncident(incident, async ({ registry, view, time, last }) => {
        const port = await listen(view.node);
        opened = await open(browser, `http://127.0.0.1:${port}/`, { timezoneId: 'UTC' });
        page = opened.page;
        await page.getByText('Connected').waitFor();
        // They were counted in slices when the page was opened; the next frame says so.
        await settle(60);
        const [status] = await view.status();
        await time.passUntil(time.monotonicMs + 1_000);
        const causes = status?.causes ?? [];
        const unserved = countWord(status?.unserved ?? 0);
        await shows(() => textOf(figure('Owners that cannot be served'))).toMatch(new RegExp(`^${unserved}[\\s▲]`));
        expect(await textOf(verdict())).toMatch(/\d\d:\d\d:\d\d/);
        expect(await page.locator('.cause').count()).toBe(new Set(causes.map(({ code }) => code)).size);
        expect(await page.locator('.opener').count()).toBe(causes.length);
        await page
          .locator('.opener[aria-expanded=false]')
          .first()
          .click({ timeout: 500 })
          .catch(() => {});
        for (const { code, owners } of causes) {
          const shown = await textOf(page.locator('.cause').filter({ hasText: code }));
          expect(shown).toContain(`${countWord(owners)} owner`);
          expect(shown).toMatch(/since \d\d:\d\d:\d\d/);
        }
        expect(await textOf(page.locator('.verdict'))).toMatch(/Responsible: .* Next step: /);
        expect(await textOf(page.locator('.cause').filter({ has: page.locator('[aria-expanded=true]') }))).toMatch(
          /Responsible: .* Next step: /,
        );
        const [failed] = [...last].find(([, { code }]) => code !== undefined) ?? [...last][0] ?? [];
        await page.getByLabel('Label or fingerprint').fill(failed ?? '');
        const found = page.getByRole('region', { name: 'Owners found' }).locator('tbody tr').first();
        await shows(() => textOf(found)).toContain(`${failed}\t`);
        expect(await seriousViolations(page)).toEqual([]);
        expect(registry.stats().owners).toBeGreaterThan(0);
      });
    },
  );
});
