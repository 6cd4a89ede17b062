/** The picture in the docs: how the estimate finds the lifetime, and what each policy costs. */

const STYLE = `
  text { font: 12px system-ui, sans-serif; fill: #444; }
  .title { font-weight: 600; fill: #222; }
  .axis { stroke: #999; fill: none; }
  .grid { stroke: #999; stroke-opacity: 0.25; fill: none; }
  .truth { stroke: #888; stroke-width: 4; stroke-opacity: 0.4; fill: none; }
  .line { fill: none; stroke-width: 1.5; }
  .bounds { fill: #2a9d5c; fill-opacity: 0.12; }
  @media (prefers-color-scheme: dark) {
    text { fill: #bbb; } .title { fill: #eee; }
  }`;

const COLOURS = ['#2f7ed8', '#d9822b', '#8e5bd0', '#1a9e77', '#c2456b', '#7a7a7a'];

/** Left: the course of the estimate. Right: requests against repeated calls, a dot for each policy and lifetime. */
export function drawPlot(courses, results) {
  return [
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 380" role="img" aria-label="The estimate of the lifetime over time, and the cost of each policy">',
    `<style>${STYLE}</style>`,
    ...courseOf(courses),
    ...costsOf(results),
    '</svg>\n',
  ].join('\n');
}

const text = (x, y, content, attributes = '') =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes}>${content}</text>`;
const path = (points, attributes) =>
  `<path d="M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join('L')}" ${attributes}/>`;

/** Lifetimes of the hidden one at first from left to right; the estimate as a share of it from 1/4096 to 16. */
function courseOf(courses) {
  const x = (lifetimes) => 60 + lifetimes * 7.6;
  const y = (share) => 40 + (290 * (4 - Math.log2(Math.min(16, Math.max(1 / 512, share))))) / 13;
  const shares = [16, 4, 1, 0.25, 1 / 16, 1 / 64, 1 / 256];
  return [
    text(60, 22, 'The estimate, as a share of the hidden lifetime', 'class="title"'),
    ...shares.flatMap((share) => [
      path(
        [
          [x(0), y(share)],
          [x(50), y(share)],
        ],
        'class="grid"',
      ),
      text(54, y(share) + 4, share >= 1 ? `${share}` : `1/${1 / share}`, 'text-anchor="end"'),
    ]),
    ...[0, 10, 20, 30, 40, 50].map((at) => text(x(at), 348, `${at}`, 'text-anchor="middle"')),
    text(x(25), 368, 'lifetimes since the first call; it halves at 20 and doubles at 30', 'text-anchor="middle"'),
    path(
      [
        [x(0), y(1)],
        [x(20), y(1)],
        [x(20), y(0.5)],
        [x(30), y(0.5)],
        [x(30), y(1)],
        [x(50), y(1)],
      ],
      'class="truth"',
    ),
    ...courses.flatMap(({ name, points }, index) => [
      path(
        points.map(([at, share]) => [x(at), y(share)]),
        `class="line" stroke="${COLOURS[index]}"`,
      ),
      path(
        [
          [330, 190 + 18 * index],
          [350, 190 + 18 * index],
        ],
        `class="line" stroke="${COLOURS[index]}"`,
      ),
      text(356, 194 + 18 * index, name),
    ]),
  ];
}

/** Both axes logarithmic, with a place at the bottom for shares below a hundredth of a percent. */
function costsOf(results) {
  const x = (requests) => 530 + (340 * Math.log2(Math.min(64, Math.max(0.5, requests)) * 2)) / 7;
  const y = (outlived) => 330 - (290 * Math.log10(Math.min(0.1, Math.max(1e-4, outlived)) / 1e-4)) / 3;
  const policies = [...new Set(results.map(({ policy }) => policy))];
  return [
    text(530, 22, 'What a policy costs (as it was, halved, doubled)', 'class="title"'),
    `<rect class="bounds" x="${x(0.5)}" y="${y(0.005).toFixed(1)}" width="${(x(1.3) - x(0.5)).toFixed(1)}" height="${(330 - y(0.005)).toFixed(1)}"/>`,
    path(
      [
        [x(0.5), 40],
        [x(0.5), 330],
        [x(64), 330],
      ],
      'class="axis"',
    ),
    ...[0.5, 1, 2, 4, 8, 16, 32, 64].map((at) => text(x(at), 348, `${at}`, 'text-anchor="middle"')),
    text(x(6), 368, 'token requests, for one of a policy that knows', 'text-anchor="middle"'),
    ...[0.1, 0.01, 0.001].flatMap((at) => [
      path(
        [
          [x(0.5), y(at)],
          [x(64), y(at)],
        ],
        'class="grid"',
      ),
      text(524, y(at) + 4, `${100 * at} %`, 'text-anchor="end"'),
    ]),
    text(524, 334, '0', 'text-anchor="end"'),
    text(538, 54, 'calls repeated because the token had outlived its lifetime'),
    ...results.flatMap(({ policy, measured }) =>
      measured.map(
        ({ requests, outlived }) =>
          `<circle cx="${x(requests).toFixed(1)}" cy="${y(outlived).toFixed(1)}" r="4" fill="${COLOURS[policies.indexOf(policy)]}" fill-opacity="0.75"/>`,
      ),
    ),
    ...policies.flatMap((policy, index) => [
      `<circle cx="700" cy="${130 + 18 * index}" r="4" fill="${COLOURS[index]}"/>`,
      text(710, 134 + 18 * index, policy),
    ]),
  ];
}
