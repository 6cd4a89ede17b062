import { accessSync, constants, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Timeout of each wait: far longer than any takes, even on a busy machine. */
export const WAIT_MS = 15_000;

/**
 * The path of Chromium: `CHROMIUM_PATH`, or found on the `PATH`. The headless shell is the same browser without windows:
 * its pages open in half the CPU time.
 */
export function chromiumPath(): string | undefined {
  const named = process.env.CHROMIUM_PATH;
  const folders = (process.env.PATH ?? '').split(delimiter);
  const found = ['chromium-headless-shell', 'chromium'].flatMap((name) => folders.map((path) => join(path, name)));
  return (named ? [named] : found).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Without Chromium the tests are reported as skipped; with `REQUIRE_BROWSER=1` they run and fail. */
export const skipsBrowser = chromiumPath() === undefined && process.env.REQUIRE_BROWSER !== '1';

/** Starts Chromium with a new, empty profile. */
export function launch(): Promise<Browser> {
  const executablePath = chromiumPath();
  if (executablePath === undefined)
    throw new Error('no chromium found: neither CHROMIUM_PATH nor the PATH leads to one');
  return chromium.launch({ executablePath, args: FLAGS });
}

export interface Opened {
  readonly page: Page;
  /** The URLs that the page requested. */
  readonly loaded: string[];
  /** Errors and warnings of the page, violations of the content security policy included. */
  readonly troubles: string[];
}

/** Opens a page in a context of its own. `movesTime`: its time can be moved by `page.clock`. */
export async function open(
  browser: Browser,
  url: string,
  { movesTime = false, ...options }: BrowserContextOptions & { movesTime?: boolean } = {},
): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  if (movesTime) await context.clock.install();
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const loaded: string[] = [];
  const troubles: string[] = [];
  page.on('request', (request) => loaded.push(request.url()));
  page.on('pageerror', (error) => troubles.push(`${error}`));
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') troubles.push(message.text());
  });
  await page.goto(url);
  return { page, loaded, troubles };
}

export interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: string[];
}

/** The violations of serious or critical impact that axe finds on a page now, by the given rules or by all. */
export async function seriousViolations(page: Page, rules?: string[]): Promise<Violation[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axeSource());
  const options = JSON.stringify({ resultTypes: ['violations'], ...(rules && { runOnly: rules }) });
  const violations = (await page.evaluate(`axe.run(${options}).then(({ violations }) => violations)`)) as {
    id: string;
    impact: string;
    nodes: { html: string; failureSummary?: string }[];
  }[];
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map((n) => `${n.html} ${n.failureSummary}`) }));
}

const axeSource = (): string => readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
