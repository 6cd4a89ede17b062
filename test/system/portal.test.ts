import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/index.ts';
import { launch, type Opened, open, seriousViolations, skipsBrowser, WAIT_MS } from '../helpers/browser.ts';
import { askToken, echo, tokenFor } from '../sandbox/client.ts';

let browser: Browser;
let sandbox: Sandbox;
let opened: Opened;
let page: Page;

/** What the browser's console may report in the current test. */
let expected: RegExp | undefined;

const SCREENS = ['live', 'owners', 'faults', 'response', 'scenarios'];

async function start(options: SandboxOptions = {}, context: Parameters<typeof open>[2] = {}): Promise<void> {
  sandbox = await startSandbox({ seed: 1, ...options });
  opened = await open(browser, sandbox.portalUrl, context);
  page = opened.page;
  await page.getByText('Connected').waitFor();
}

const button = (name: string | RegExp) => page.getByRole('button', { name, exact: true });
const says = (text: string | RegExp) => page.getByRole('status').getByText(text).waitFor();
const figure = (name: string) => page.locator('.figures > div').filter({ hasText: name }).locator('dd');
/** As it is laid out: cells apart, and nothing that is hidden. */
// biome-ignore lint/performance/useDomNodeTextContent: the layout is wanted
const textOf = (locator: Locator) => locator.innerText();

/** What the lanes show, as a screen reader says it. */
const lanes = async () => (await page.locator('canvas.lanes').getAttribute('aria-label')) ?? '';

/** How many points of the lanes have the colour of a tone. Small marks have hardly any without antialiasing. */
const painted = (tone: string) =>
  page.evaluate(`(() => {
    const canvas = document.querySelector('canvas.lanes');
    const { color } = getComputedStyle(document.querySelector('.picture .tones > [style*="var(--${tone})"]'));
    const wanted = color.match(/\\d+/g).map(Number);
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) if (wanted.every((value, index) => Math.abs(data[at + index] - value) < 32)) count++;
    return count;
  })()`) as Promise<number>;

/** Token requests for several owners while time stands still: a scenario may delay the answers by less than a second. */
async function askAll(keys: readonly string[]): Promise<void> {
  const before = sandbox.ledger.count({ kind: 'token' });
  const all = keys.map((key) => askToken(sandbox, key));
  while (sandbox.ledger.count({ kind: 'token' }) < before + keys.length) await new Promise(setImmediate);
  sandbox.clock.advance(1000);
  await Promise.all(all);
}

/** Waits until the page shows what it should. */
const shows = (read: () => Promise<unknown>) => expect.poll(read, { timeout: WAIT_MS, interval: 25 });

describe.skipIf(skipsBrowser)('the portal in Chromium', { timeout: 60_000 }, () => {
  beforeAll(async () => {
    browser = await launch();
  }, 120_000);

  afterAll(() => browser?.close());

  afterEach(async () => {
    const troubles = opened.troubles.filter((trouble) => !expected?.test(trouble));
    expected = undefined;
    await page.context().close();
    await sandbox.close();
    expect(troubles).toEqual([]);
  });

  describe('the first visit', () => {
    it('loads nothing from elsewhere, and shows the settings of an integration, with secrets only on request', async () => {
      await start();
      expect(opened.loaded.filter((url) => !url.startsWith(`${sandbox.portalUrl}/`))).toEqual([]);
      const secrets = [sandbox.clientSecret, sandbox.accessKeys[0] ?? ''];
      const env = page.locator('pre.env');
      expect(await textOf(env)).toContain(`OTR_BASE_URL=${sandbox.url}`);
      for (const secret of secrets) expect(await page.content()).not.toContain(secret);
      await button('Show secrets').click();
      for (const secret of secrets) await shows(() => textOf(env)).toContain(secret);
      await button('Hide secrets').click();
      for (const secret of secrets) await shows(() => page.content()).not.toContain(secret);
    });

    it('rotates the secret of the client with an overlap, and disables the client, with effect', async () => {
      await start();
      const client = page.getByRole('region', { name: 'Client' });
      const old = sandbox.clientSecret;
      const secrets = () => client.locator('.secret').allInnerTexts();
      const [first] = await secrets();
      await button('Show secrets').click();
      await shows(() => textOf(page.locator('pre.env'))).toContain(old);
      await button('Rotate with 5 min overlap').click();
      await says('New secret issued; the old one expires in 5 min.');
      await shows(() => textOf(page.locator('pre.env'))).not.toContain(old);
      await shows(secrets).toEqual([
        expect.not.stringContaining(`${first}`),
        expect.stringMatching(new RegExp(`^${first}, expires in [45] min`)),
      ]);
      expect(sandbox.clientSecret).not.toBe(old);
      expect((await askToken(sandbox, undefined, { client_secret: old })).status).toBe(200);
      await button('Rotate secret').click();
      await says('New secret issued; the old one no longer works.');
      expect((await askToken(sandbox, undefined, { client_secret: old })).status).toBe(401);
      await button('Disable client').click();
      await says('Client is disabled.');
      expect((await askToken(sandbox)).json.error).toBe('unauthorized_client');
      await button('Enable client').click();
      await says('Client is enabled.');
      expect((await askToken(sandbox)).status).toBe(200);
    });

    it('sends one request, and shows it in every place', async () => {
      await start();
      expect(await textOf(figure('Success'))).toMatch(/^–/);
      await button('Send one request').click();
      await page.getByText('Token request: 200').waitFor();
      await shows(() => textOf(figure('Success'))).toMatch(/^100%/);
      await shows(() => textOf(figure('Owners covered'))).toMatch(/^1\s+of 5/);
      await shows(lanes).toMatch(/^5 lanes, 1 min: 1 × 200\./);
      await shows(() => painted('ok')).toBeGreaterThan(20);
      await shows(() => painted('bar')).toBeGreaterThan(100);
      expect(await page.locator('.requests tbody tr').allInnerTexts()).toEqual([
        expect.stringMatching(/owner-001\s+token issued\s+200\s+[\d.]+ ms/),
      ]);
    });
  });

  describe('the lanes', () => {
    it('show a wasted request, an error, a rate limit, a socket fault and a revoked token, and the table names them', async () => {
      await start();
      const [a, b, c, d, e] = sandbox.accessKeys;
      await askToken(sandbox, a);
      await askToken(sandbox, a);
      sandbox.faults.add({ kind: 'status', status: 503, when: { next: 1 } });
      await askToken(sandbox, b);
      sandbox.faults.add({ kind: 'status', status: 429, when: { next: 1 } });
      await askToken(sandbox, c);
      sandbox.faults.add({ kind: 'reset', at: 'before_headers', when: { next: 1 } });
      await askToken(sandbox, d).catch(() => {});
      const token = await tokenFor(sandbox, e);
      // Apart, so that the marks do not overlap.
      sandbox.clock.advance(5_000);
      sandbox.revokeToken(token);
      await echo(sandbox, token);
      await shows(lanes).toContain(
        '2 × 200, 1 × wasted, 1 × 429, 1 × 5xx, 1 × no usable answer, 1 × refused or revoked.',
      );
      for (const kind of ['ok', 'error', 'limited', 'refused']) await shows(() => painted(kind)).toBeGreaterThan(0);
      expect(await textOf(figure('Wasted requests'))).toMatch(/^1\b/);
      await button('Table').click();
      const rows = page.locator('.lanes-section tbody tr');
      expect(await rows.allInnerTexts()).toEqual([
        expect.stringMatching(/Appliance owner 1\s+● valid for.*\s2\s+0\s+1\s+wasted, \d/s),
        expect.stringMatching(/Appliance owner 2\s+○ none\s+1\s+1\s+0\s+5xx/),
        expect.stringMatching(/Appliance owner 3\s+○ none\s+1\s+1\s+0\s+429/),
        expect.stringMatching(/Appliance owner 4\s+○ none\s+1\s+1\s+0\s+no usable answer/),
        expect.stringMatching(/Appliance owner 5\s+○ revoked\s+2\s+1\s+0\s+refused or revoked/),
      ]);
    });

    it('of 200 owners fit one screen, and a click on a mark shows its request', async () => {
      await start({ owners: 200 });
      await Promise.all(sandbox.accessKeys.map((key) => askToken(sandbox, key)));
      await shows(lanes).toMatch(/^200 lanes, 1 min: 200 × 200\./);
      const requested = sandbox.ledger.entries({ owner: 'owner-021' })[0];
      // Held when the request of this owner had just begun, its mark is at the line of now.
      await page.goto(`${sandbox.portalUrl}/#/live?until=${requested?.atMs}`);
      await page.getByText(/^Held: /).waitFor();
      const box = await page.locator('canvas.lanes').boundingBox();
      if (!box) throw new Error('the lanes have no place');
      expect(box.height).toBeLessThan(900);
      const [x, y] = [box.x + box.width * 0.8, box.y + 6 + 20.5 * 4];
      await page.mouse.move(x, y);
      await page.locator('.tip').getByText('owner-021 · 200').waitFor();
      await page.mouse.click(x, y);
      await page.getByRole('heading', { name: `Request ${requested?.id}` }).waitFor();
      await button('Back to now').click();
      await page.getByLabel('Owner', { exact: true }).fill('owner-12');
      await shows(() => page.locator('.lane-name').count()).toBe(10);
      expect(page.url()).toMatch(/search=owner-12/);
    });

    it('stand still while held, and move on afterwards', async () => {
      await start();
      await button('Hold').click();
      await askToken(sandbox);
      await shows(() => textOf(figure('Token requests'))).toContain('1 since the start');
      expect(await lanes()).toContain('no requests');
      await button('Back to now').click();
      await shows(lanes).toContain('1 × 200');
    });
  });

  it('finishes loading in each of fifty reloads of an idle sandbox', { timeout: 240_000 }, async () => {
    await start();
    // A browser that paints late: effects run when the state has long arrived, and nothing follows it.
    await page.context().addInitScript(`{
      const later = setTimeout;
      window.requestAnimationFrame = (paint) => later(() => paint(performance.now()), 300);
      window.setTimeout = (fn, ms = 0, ...rest) => later(fn, ms > 20 && ms <= 100 ? 300 : ms, ...rest);
    }`);
    // Mostly waiting, so five pages load at a time.
    for (let tabs = 1; tabs < 5; tabs++) await (await page.context().newPage()).goto(sandbox.portalUrl);
    const reload = async (tab: Page) => {
      await tab.reload({ waitUntil: 'commit' });
      await tab.locator('canvas.lanes').waitFor({ timeout: WAIT_MS });
    };
    for (let round = 0; round < 10; round++) await Promise.all(page.context().pages().map(reload));
  });

  describe('the past', () => {
    const rail = () => page.getByRole('slider', { name: 'Token requests over time' });
    /** A place on the rail, as a share of its past. */
    const placeAt = async (share: number) => {
      const box = await rail().boundingBox();
      if (!box) throw new Error('the rail has no place');
      return { x: box.x + box.width * 0.8 * share, y: box.y + 50 };
    };
    const held = () => page.getByText(/^Held: \d\d:\d\d:\d\d to \d\d:\d\d:\d\d, /);

    /** One request 50 s ago, and one that failed 5 s ago. */
    const startWithPast = async (context = {}) => {
      await start({}, context);
      await askToken(sandbox);
      sandbox.clock.advance(45_000);
      sandbox.faults.add({ kind: 'status', status: 503, when: { next: 1 } });
      await askToken(sandbox, sandbox.accessKeys[1]);
      sandbox.clock.advance(5000);
      await shows(lanes).toContain('1 × 200, 1 × 5xx');
    };

    it('is zoomed to by dragging over the rail, with its requests, and left again', async () => {
      await startWithPast();
      const [from, to] = [await placeAt(0.7), await placeAt(0.98)];
      await page.mouse.move(from.x, from.y);
      await page.mouse.down();
      await page.mouse.move(to.x, to.y, { steps: 3 });
      await page.locator('.readout').getByText('1 × 5xx · Enter zooms').waitFor();
      await page.mouse.up();
      await held().waitFor();
      await shows(lanes).toMatch(/^5 lanes, 1[67] s: 1 × 5xx\./);
      await shows(() => page.locator('.requests tbody tr').count()).toBe(1);
      await askToken(sandbox, sandbox.accessKeys[2]);
      await shows(() => textOf(figure('Token requests'))).toContain('3 since the start');
      expect(await lanes()).toMatch(/: 1 × 5xx\./);
      await page.reload();
      await shows(lanes).toMatch(/: 1 × 5xx\./);
      await button('Back to now').click();
      await shows(lanes).toContain('5 lanes, 1 min: 2 × 200, 1 × 5xx');
      await shows(() => page.locator('.requests tbody tr').count()).toBe(3);
    });

    it('is zoomed to with a finger', async () => {
      await startWithPast({ hasTouch: true });
      const devtools = await page.context().newCDPSession(page);
      const touch = (type: 'touchStart' | 'touchMove' | 'touchEnd', touchPoints: { x: number; y: number }[]) =>
        devtools.send('Input.dispatchTouchEvent', { type, touchPoints });
      const [from, to] = [await placeAt(0.7), await placeAt(0.98)];
      await touch('touchStart', [from]);
      for (const x of [from.x + 20, from.x + 60, to.x]) await touch('touchMove', [{ x, y: from.y }]);
      await touch('touchEnd', []);
      await held().waitFor();
      await shows(lanes).toMatch(/: 1 × 5xx\./);
    });

    it('is zoomed to and left again with the keyboard alone', async () => {
      await startWithPast();
      // The selection starts at a fixed time and ends where the cursor is, which moves with the clock.
      await button('Freeze time').click();
      await button('Resume time').waitFor();
      await rail().focus();
      for (let press = 0; press < 15; press++) await page.keyboard.press('Shift+ArrowLeft');
      expect(await rail().getAttribute('aria-valuetext')).toMatch(/ to .* · 1 × 5xx · Enter zooms$/);
      await page.keyboard.press('Enter');
      await held().waitFor();
      await shows(lanes).toMatch(/: 1 × 5xx\./);
      await rail().focus();
      await page.keyboard.press('+');
      await shows(() => textOf(held())).toMatch(/, 7[.\d]* s\./);
      await page.keyboard.press('Escape');
      await shows(() => held().count()).toBe(0);
    });

    it('stays zoomed to in the address, with the requests that a verdict names', async () => {
      await startWithPast();
      const ids = sandbox.ledger.entries().map(({ id }) => id);
      await askToken(sandbox, sandbox.accessKeys[3]);
      const until = sandbox.clock.now();
      await page.goto(`${sandbox.portalUrl}/#/live?window=60000&until=${until}&requests=${ids.join()}&filter=all`);
      await page.getByText('Those that the verdict names.').waitFor();
      await shows(() => page.locator('.requests tbody tr').count()).toBe(2);
      await button('All of this window').click();
      await shows(() => page.locator('.requests tbody tr').count()).toBe(3);
    });
  });

  it('says why a request failed, and sends it again', async () => {
    await start();
    sandbox.faults.add({ kind: 'status', status: 503, when: { next: 1 } });
    await askToken(sandbox, sandbox.accessKeys[1]);
    await page.locator('.requests tbody button').click();
    await page.getByText('The service failed. Cause: the fault “Error status”.').waitFor();
    await button('Send again').click();
    await page.getByText('Token request: 200. /echo: 200, accepted for owner-002.').waitFor();
    await askToken(sandbox, 'nonsense');
    await page.locator('.requests tr').filter({ hasText: 'unknown owner' }).click();
    await page.getByText('Appliance_owner_scope is not a known access key.').waitFor();
    await page.getByText('the sandbox does not know its access key').waitFor();
  });

  it('reports an outage in its headline, with refused connections and the success rate until then', async () => {
    await start({ lifetimeSeconds: 10 });
    for (const key of sandbox.accessKeys) await askToken(sandbox, key);
    await shows(() => textOf(figure('Success'))).toMatch(/^100%/);
    sandbox.faults.add({ kind: 'refuse' });
    sandbox.clock.advance(12_000);
    await shows(() => textOf(figure('Owners covered'))).toMatch(/^0[\s▲]+of 5 .*; 5 asked and have none/);
    await shows(() => textOf(figure('Success'))).toMatch(/^–[\s▲]+no request for 1\d s/);
    await shows(() => page.locator('.figures').getByRole('img', { name: 'alarm' }).count()).toBe(3);
  });

  it('shows outcomes and owners in full on a phone, and the current tab in forced colours', async () => {
    await start({ owners: 3 }, { viewport: { width: 390, height: 800 } });
    await askToken(sandbox);
    await askToken(sandbox);
    await page.locator('.requests tbody').getByText('token issued, wasted').waitFor();
    const cut = `[...document.querySelectorAll('.requests td, .lane-name')].filter(
      (it) => it.scrollWidth > it.clientWidth + 1 || it.scrollHeight > it.clientHeight + 1).map((it) => it.innerText)`;
    expect(await page.evaluate(cut)).toEqual([]);
    const cutOff = (region: string) =>
      page.getByRole('region', { name: region, exact: true }).evaluate((it) => it.scrollWidth - it.clientWidth);
    await button('Table').click();
    expect(await cutOff('Lanes as a table')).toBe(0);
    await page.setViewportSize({ width: 320, height: 800 });
    await page.getByRole('link', { name: 'Owners' }).click();
    expect(await cutOff('Owners')).toBe(0);
    await page.emulateMedia({ forcedColors: 'active' });
    const border = (of: string) =>
      page.evaluate(`getComputedStyle(document.querySelector('header ${of}')).borderBottomColor`);
    expect(await border('a[aria-current]')).not.toBe(await border('li:nth-child(3) a'));
    expect(await seriousViolations(page)).toEqual([]);
  });

  it('shows one request in detail, as a command without secrets unless requested', async () => {
    await start({}, { permissions: ['clipboard-read', 'clipboard-write'] });
    await askToken(sandbox, sandbox.accessKeys[1]);
    await page.locator('.requests tbody button').click();
    const detail = page.locator('section.detail');
    expect(await textOf(detail.locator('.facts'))).toMatch(/POST \/auth\/v1\/token[\s\S]*owner-002[\s\S]*200/);
    await button('Copy as curl').click();
    await says('Copied.');
    const copied = () => page.evaluate('navigator.clipboard.readText()') as Promise<string>;
    expect(await copied()).toMatch(/^# OTR_ACCESS_KEY: the access key of owner-002\ncurl .*"\$OTR_CLIENT_SECRET"/s);
    expect(await page.content()).not.toContain(sandbox.accessKeys[1]);
    await page.getByLabel('With secrets').check();
    await shows(() => textOf(detail.locator('pre'))).toContain(sandbox.accessKeys[1]);
  });

  it('runs a scenario with one click, shows the time left of it and of its fault, and ends it', async () => {
    await start();
    await button('Rate-limit storm').click();
    await says('Rate-limit storm: started.');
    await page.getByText(/Rate-limit storm, (1 min|\d\d s) left/).waitFor();
    await shows(() => textOf(figure('Active faults'))).toContain('Error status 429');
    expect(sandbox.faults.list()).toMatchObject([{ kind: 'status', status: 429 }]);
    await button('End scenario').click();
    await shows(() => textOf(figure('Active faults'))).toContain('None');
    expect(sandbox.faults.list()).toEqual([]);
    await page.goto(`${sandbox.portalUrl}/#/scenarios`);
    await shows(() => page.getByRole('button', { name: /^Run: / }).count()).toBe(9);
    await button('Run: Cold start of 200 owners').click();
    await shows(() => textOf(figure('Owners covered'))).toMatch(/^0\s+of 200/);
  });

  it('judges a run, and links a finding to its requests', async () => {
    await start();
    sandbox.clock.freeze();
    await askAll(sandbox.accessKeys);
    await button('Mass expiry').click();
    await page.locator('.running').getByText('Mass expiry').waitFor();
    await askAll(sandbox.accessKeys);
    // Three requests too many: now and then a client may ask for an owner that works.
    for (let n = 0; n < 3; n++) await askAll(sandbox.accessKeys.slice(2, 3));
    sandbox.clock.advance(30_000);
    await page.getByRole('heading', { name: 'Mass expiry: failed' }).waitFor();
    await page.locator('.findings .condition').first().waitFor();
    const wasted = page.locator('.findings .failed').filter({ hasText: 'already has a valid one' });
    await wasted.getByRole('link', { name: 'Show 3 requests' }).click();
    await page.getByText('Those that the verdict names.').waitFor();
    await shows(() => page.locator('.requests tbody tr').allInnerTexts()).toEqual(
      Array(3).fill(expect.stringMatching(/owner-003\s+token issued, wasted/)),
    );
    await button('Dismiss verdict').click();
    await shows(() => page.locator('.verdict').count()).toBe(0);
    await page.goto(`${sandbox.portalUrl}/#/scenarios`);
    await page.getByText(/Last run at .*: failed/).waitFor();
  });

  it('counts only token requests in the window in its success rate', async () => {
    await start();
    const token = await tokenFor(sandbox);
    for (let n = 0; n < 50; n++) await echo(sandbox, token);
    sandbox.faults.add({ kind: 'status', status: 503, when: { next: 1 } });
    await askToken(sandbox, sandbox.accessKeys[1]);
    await shows(() => textOf(figure('Success'))).toMatch(/^50.0%/);
    await figure('Success').getByRole('img', { name: 'alarm' }).waitFor();
    sandbox.clock.advance(120_000);
    await shows(() => textOf(figure('Success'))).toMatch(/^–/);
  });

  it('draws a fault as a band that remains after its end, and reads out a moment by keyboard', async () => {
    await start();
    sandbox.faults.add({ kind: 'status', status: 503, when: { next: 1 } });
    await askToken(sandbox);
    await shows(() => textOf(figure('Active faults'))).toContain('None now');
    sandbox.clock.freeze();
    sandbox.clock.advance(5000);
    await page.reload();
    const rail = page.getByRole('slider', { name: 'Token requests over time' });
    await rail.focus();
    expect(await rail.getAttribute('aria-description')).toMatch(
      /Arrow move .*Home and End .*Shift .*Enter .*Plus and Minus .*Escape/,
    );
    const said: (string | null)[] = [];
    for (let seconds = 1; seconds <= 55; seconds++) {
      await page.keyboard.press('ArrowLeft');
      await shows(() => rail.getAttribute('aria-valuenow')).toBe(`${-seconds}`);
      said.push(await rail.getAttribute('aria-valuetext'));
    }
    // In the second that it was sent in, and in no other.
    const time = new Date(sandbox.ledger.entries()[0]?.atMs ?? 0).toTimeString().slice(0, 8);
    const ofRequest = said.filter((words) => words?.includes('5xx'));
    expect(ofRequest).toEqual([expect.stringContaining(`${time} · 1 × 5xx · Error status`)]);
    await page.getByRole('searchbox').fill('owner-003');
    await shows(() => page.locator('.lane-name').count()).toBe(1);
  });

  it('shows the worst owners first if there are more owners than lanes', async () => {
    await start({ owners: 400 });
    await askToken(sandbox, sandbox.accessKeys[398]);
    sandbox.faults.add({ kind: 'status', status: 503, when: { next: 1 } });
    await askToken(sandbox, sandbox.accessKeys[399]);
    await page.reload();
    await page.getByText('The 250 worst of 400 owners').waitFor();
    await shows(async () => (await page.locator('.lane-name').allInnerTexts())[0]).toBe('Appliance owner 400');
  });

  it('advances time, freezes it, and starts over', async () => {
    await start();
    await askToken(sandbox);
    await shows(() => textOf(figure('Owners covered'))).toMatch(/^1\b/);
    await button('Advance time by 1 h').click();
    await shows(() => textOf(figure('Owners covered'))).toMatch(/^0\b/);
    await button('Freeze time').click();
    await page.getByText(', frozen').waitFor();
    expect(sandbox.clock.frozen).toBe(true);
    page.once('dialog', (question) => question.dismiss());
    await button('Reset sandbox').click();
    expect(sandbox.ledger.count()).toBe(1);
    page.once('dialog', (question) => question.accept());
    await button('Reset sandbox').click();
    await button('Freeze time').waitFor();
    await shows(() => page.locator('.requests tbody tr').count()).toBe(0);
  });

  it('reports a lost connection, and reconnects by itself to the current state', async () => {
    await start();
    const portalPort = Number(new URL(sandbox.portalUrl).port);
    expected = /./;
    await sandbox.close();
    await page.getByText('Connection lost').waitFor();
    sandbox = await startSandbox({ portalPort, owners: 7 });
    await shows(() => textOf(figure('Owners covered'))).toContain('of 7');
    await page.locator('.connection').getByText('Connected').waitFor();
  });

  it('dims the page and stops its clock while the connection is lost', async () => {
    await start({}, { movesTime: true });
    await askToken(sandbox);
    await shows(lanes).toContain('1 × 200');
    const opacityOf = (of: string) => `Number(getComputedStyle(document.querySelector('${of}')).opacity)`;
    const seen = () =>
      page.evaluate(`({
        time: document.querySelector('footer strong').textContent,
        moved: [...document.querySelectorAll('.plot canvas')].map((it) => it.toDataURL()),
        opacity: [${opacityOf('main')}, ${opacityOf('footer')}],
      })`) as Promise<{ time: string; moved: string[]; opacity: number[] }>;
    const first = await seen();
    await page.clock.runFor(5000);
    await shows(async () => (await seen()).time).not.toBe(first.time);
    await shows(async () => (await seen()).moved.filter((moved, index) => moved === first.moved[index])).toEqual([]);
    expect((await seen()).opacity).toEqual([1, 1]);
    expected = /./;
    await sandbox.close();
    await page.getByText('Connection lost').waitFor();
    await shows(async () => Math.max(...(await seen()).opacity)).toBeLessThan(0.7);
    const lost = await seen();
    await page.clock.runFor(60_000);
    expect(await seen()).toEqual(lost);
  });

  describe('while nobody sees it', () => {
    const turn = (state: string) =>
      page.evaluate(`Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
        document.dispatchEvent(new Event('visibilitychange'))`);

    it('closes its event stream while hidden, and is up to date when shown again', async () => {
      await start();
      await page.evaluate(`{ const { close } = EventSource.prototype;
        EventSource.prototype.close = function () { close.call(this); window.closed_ = true; } }`);
      await turn('hidden');
      expect(await page.evaluate('window.closed_')).toBe(true);
      await askToken(sandbox);
      await turn('visible');
      await shows(lanes).toContain('1 × 200');
      await askToken(sandbox, sandbox.accessKeys[1]);
      await shows(lanes).toContain('2 × 200');
    });

    it('loses nothing of its picture while hidden for three seconds, however many calls to /echo come in between', async () => {
      await start({ owners: 20 }, { movesTime: true });
      const token = await tokenFor(sandbox);
      for (const key of sandbox.accessKeys.slice(1)) await askToken(sandbox, key);
      const drawn = async () => [await lanes(), await figureValues()];
      await shows(lanes).toContain('20 × 200');
      const before = await drawn();
      await turn('hidden');
      sandbox.clock.advance(3000);
      await page.clock.runFor(3000);
      for (let n = 0; n < 1200; n++) await echo(sandbox, token);
      await turn('visible');
      await shows(drawn).toEqual(before);
    });

    const figureValues = () => Promise.all(['Success', 'Owners covered'].map((name) => textOf(figure(name))));
  });

  it('works with a required control token, and keeps it out of the address', async () => {
    sandbox = await startSandbox({ host: '0.0.0.0' });
    opened = await open(browser, `${sandbox.portalUrl}/?token=${sandbox.portalToken}`);
    page = opened.page;
    await page.getByText('Connected').waitFor();
    expect(page.url()).not.toContain('token=');
    await button('Send one request').click();
    await page.getByText('Token request: 200').waitFor();
  });

  describe('with the keyboard alone', () => {
    const focused = () =>
      page.evaluate(`(() => {
        const it = document.activeElement;
        window.visited?.add(it);
        const style = getComputedStyle(it);
        return { tag: it.tagName, text: (it.getAttribute('aria-label') || it.innerText || it.id || '').trim(), outline: style.outlineStyle };
      })()`) as Promise<{ tag: string; text: string; outline: string }>;

    it('reaches every control, with visible focus', async () => {
      await start({ owners: 3, faults: [{ kind: 'status', status: 503, when: { next: 2 } }] });
      await askToken(sandbox);
      for (const screen of SCREENS) {
        await page.goto(`${sandbox.portalUrl}/#/${screen}`);
        await page.locator(`a[aria-current][href="#/${screen}"]`).waitFor();
        // The screen takes the focus when it is there; the first has it from the address bar.
        if (screen !== 'live') await shows(async () => (await focused()).tag).toBe('MAIN');
        await walk(screen);
      }
    });

    const walk = async (screen: string) => {
      const controls = 'a[href], button:not([disabled]), input, select, summary, [tabindex="0"]';
      const count = (await page.evaluate(
        `[...document.querySelectorAll('${controls}')].filter((it) => it.checkVisibility() && it.tabIndex >= 0).length`,
      )) as number;
      await page.evaluate(
        'document.querySelector("a").focus(); window.visited = new Set(); window.visited.add(document.activeElement)',
      );
      for (let press = 1; press < count; press++) {
        await page.keyboard.press('Tab');
        const stop = await focused();
        expect(stop.tag, screen).not.toBe('BODY');
        expect(stop.outline, JSON.stringify({ screen, stop })).not.toBe('none');
      }
      expect({ screen, visited: await page.evaluate('window.visited.size') }).toEqual({ screen, visited: count });
    };

    it('adds and removes a fault', async () => {
      await start();
      await page.keyboard.press('Tab');
      expect((await focused()).text).toBe('Skip to content');
      await page.keyboard.press('Enter');
      await shows(async () => (await focused()).tag).toBe('MAIN');
      await shows(async () => page.url()).not.toContain('main');
      for (let press = 0; press < 4; press++) await page.keyboard.press('Shift+Tab');
      while ((await focused()).text !== 'Faults') await page.keyboard.press('Shift+Tab');
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Add a fault' }).waitFor();
      await shows(async () => (await focused()).tag).toBe('MAIN');
      while ((await focused()).tag !== 'SELECT') await page.keyboard.press('Tab');
      await page.keyboard.type('Lat');
      await page.getByLabel('Delay, seconds').waitFor();
      await page.keyboard.press('Tab');
      await page.keyboard.press('ControlOrMeta+a');
      await page.keyboard.type('0');
      await page.keyboard.press('Enter');
      await says('Latency: added.');
      expect(sandbox.faults.list()).toMatchObject([{ kind: 'latency', ms: 0, when: { next: 5 } }]);
      await askToken(sandbox);
      await page.getByText('4 left').waitFor();
      while (!(await focused()).text.startsWith('Remove Latency')) await page.keyboard.press('Shift+Tab');
      await page.keyboard.press('Enter');
      await says('The fault is removed.');
      expect(sandbox.faults.list()).toEqual([]);
    });

    it('runs a scenario and shows its verdict', async () => {
      await start();
      sandbox.clock.freeze();
      await askAll(sandbox.accessKeys);
      while ((await focused()).text !== 'Scenarios') await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await shows(async () => (await focused()).tag).toBe('MAIN');
      while ((await focused()).text !== 'Run: Mass expiry') await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await says('Mass expiry: started.');
      await askAll(sandbox.accessKeys);
      sandbox.clock.advance(30_000);
      await page.getByRole('heading', { name: 'Mass expiry: passed' }).waitFor();
      while ((await focused()).text !== 'Dismiss verdict') await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await shows(() => page.locator('.verdict').count()).toBe(0);
    });

    it('opens an owner, revokes its access key, and returns to the previous place', async () => {
      await start({ owners: 200 });
      await page.goto(`${sandbox.portalUrl}/#/owners`);
      await page.getByLabel('Search').fill('owner-150');
      await shows(() => page.locator('.two tbody tr').count()).toBe(1);
      await page.getByRole('link', { name: 'owner-150' }).focus();
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: /^owner-150/ }).waitFor();
      await page.locator('canvas.lanes').waitFor();
      while (!(await focused()).text.startsWith('Revoke access key')) await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await says('The access key is revoked.');
      expect((await askToken(sandbox, sandbox.owners[149]?.accessKey)).status).toBe(400);
      await page.goBack();
      await shows(() => page.locator('.two tbody tr').count()).toBe(1);
    });
  });

  it('says why an action was refused', async () => {
    expected = /400 \(Bad Request\)/;
    await start();
    await page.goto(`${sandbox.portalUrl}/#/faults`);
    await page.getByLabel('Status').fill('99');
    await button('Add fault').click();
    await says('Not added: see the marked field.');
    await page.locator('.field .problem').getByText('expected an integer from 200 to 599').waitFor();
    await page.getByLabel('Kind').selectOption('latency');
    await page.getByLabel('Delay, seconds').fill('-1');
    await button('Add fault').click();
    await page.locator('.field .problem').getByText('expected 0 to 2592000 seconds').waitFor();
  });

  it('changes assumed behaviour of the service, and states the grounds of each assumption', async () => {
    await start();
    await page.goto(`${sandbox.portalUrl}/#/response`);
    await page.getByLabel('Response fields').selectOption('odd');
    await shows(async () => sandbox.profile.shape).toBe('odd');
    await page.getByLabel('Wrapped in data').uncheck();
    await shows(async () => sandbox.profile.odd.wrapped).toBe(false);
    await shows(() => page.locator('.basis.documented').count()).toBe(6);
    await page.getByText('Response fields: Odd: different from RFC 6749.').waitFor();
    await button('Send one request').click();
    await page.locator('.try').getByText('"accessToken"').waitFor();
    expect(await page.locator('.basis.assumed').count()).toBeGreaterThan(5);
  });

  it('has no serious accessibility violation and cuts nothing off, on any screen, in any colour scheme or width', async () => {
    await start({ owners: 12 });
    sandbox.faults.add({ kind: 'status', status: 503, when: { next: 2 } });
    for (const key of [...sandbox.accessKeys, sandbox.accessKeys[0]]) await askToken(sandbox, key);
    sandbox.revokeAccessKey(sandbox.accessKeys[4] ?? '');
    sandbox.runScenario('rate-limit-storm');
    // One width of each layout, and a narrower one of the last.
    const widths = [1440, 1024, 390, 320];
    const check = async (screen: string, width: number, scheme: 'light' | 'dark', rules?: string[]) => {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
      const violations = await seriousViolations(page, rules);
      expect({ screen, scheme, width, violations }).toEqual({ screen, scheme, width, violations: [] });
    };
    for (const screen of [...SCREENS, 'owners?owner=owner-005']) {
      await page.goto(`${sandbox.portalUrl}/#/${screen}`);
      await page.locator(`a[aria-current][href="#/${screen.split('?')[0]}"]`).waitFor();
      if (screen.includes('?')) await page.locator('.one-lane canvas.lanes').waitFor();
      if (screen === 'live') await page.locator('.requests tbody button').first().click();
      if (screen === 'live') await page.locator('summary').click();
      for (const width of widths) {
        await page.setViewportSize({ width, height: 800 });
        const over = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
        expect({ screen, width, over }).toEqual({ screen, width, over: 0 });
        if (width === 390) continue; // The layout of 320.
        await check(screen, width, 'light');
        // A scheme changes colours and nothing else, and of these the middle layout has none of its own.
        if (width !== 1024) await check(screen, width, 'dark', ['color-contrast']);
      }
    }
  });
});
