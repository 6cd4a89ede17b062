import { planLife } from '../../src/expiry/lifetime.ts';

const HOUR_MS = 3_600_000;
const REFRESH_WINDOW: readonly [number, number] = [0.6, 0.8];
const LEFT = 40;
const WIDTH = 820;

/** The life of a token of ten minutes, drawn with the instants that the registry computes. */
export function tokenLifePicture(): string {
  const lifetimeMs = HOUR_MS / 6;
  const plan = (share: number) =>
    planLife({ requestedAtMs: 0, lifetimeMs, refreshWindow: REFRESH_WINDOW, random: () => share });
  const [opens, closes] = REFRESH_WINDOW.map((share) => share * lifetimeMs) as [number, number];
  const { refreshAtMs, expiresAtMs } = plan(0.45);
  const x = (ms: number) => Math.round(LEFT + (ms / lifetimeMs) * WIDTH);
  const minutes = (ms: number) => {
    const seconds = Math.round(ms / 1000);
    return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
  };
  const bar = (kind: string, fromMs: number, toMs: number) =>
    `<rect class="${kind}" x="${x(fromMs)}" y="70" width="${x(toMs) - x(fromMs)}" height="34"/>`;
  const label = (ms: number, y: number, text: string, anchor = 'middle') =>
    `<text x="${x(ms)}" y="${y}" text-anchor="${anchor}">${text}</text>`;
  const tick = (ms: number) => `<path class="axis" d="M${x(ms)} 104V116"/>${label(ms, 132, minutes(ms))}`;
  const mark = (ms: number, top: number) => `<path class="mark" d="M${x(ms)} ${top}V70"/>`;
  const owners = [0.1, 0.3, 0.55, 0.7, 0.9].map((share) => plan(share).refreshAtMs);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 220" role="img" aria-labelledby="title">
<title id="title">The life of a token of ten minutes: served at once until it expires, refreshed in the background from a point drawn between 60 and 80 percent of its lifetime</title>
<style>
  text { font: 13px system-ui, sans-serif; fill: #333; }
  .strong { font-weight: 600; }
  .fresh { fill: #2a9d5c; } .due { fill: #b7791f; } .margin { fill: #999; fill-opacity: 0.5; }
  .bar { fill: #fff; }
  .axis, .mark { stroke: #777; fill: none; } .window { fill: #b7791f; fill-opacity: 0.15; }
  .dot { fill: #b7791f; }
  @media (prefers-color-scheme: dark) { text { fill: #ddd; } .axis, .mark { stroke: #999; } .bar { fill: #111; } }
</style>
<rect class="window" x="${x(opens)}" y="62" width="${x(closes) - x(opens)}" height="118"/>
${bar('fresh', 0, refreshAtMs)}
${bar('due', refreshAtMs, expiresAtMs)}
${bar('margin', expiresAtMs, lifetimeMs)}
<text class="bar" x="${x(refreshAtMs / 2)}" y="92" text-anchor="middle">fresh: served from the cache</text>
<text class="bar" x="${x((refreshAtMs + expiresAtMs) / 2)}" y="92" text-anchor="middle">served, and one request refreshes</text>
${mark(0, 40)}${label(0, 32, 'request sent', 'start')}
${mark(refreshAtMs, 40)}<text class="strong" x="${x(refreshAtMs)}" y="32" text-anchor="middle">refreshAtMs</text>
${mark(expiresAtMs, 40)}<text class="strong" x="${x(expiresAtMs)}" y="32" text-anchor="end">expiresAtMs</text>
${[0, opens, closes, expiresAtMs].map(tick).join('\n')}
${label(lifetimeMs, 152, 'lifetime 10:00', 'end')}
${owners.map((ms) => `<circle class="dot" cx="${x(ms)}" cy="164" r="4"/>`).join('')}
${label(closes, 204, 'refresh window: each owner’s token is refreshed at another point', 'end')}
</svg>
`;
}
