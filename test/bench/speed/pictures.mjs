/** The pictures of docs/performance.md, readable on light and dark pages. */

const STYLE = `
  text { font: 12px system-ui, sans-serif; fill: #444; }
  .title { font-weight: 600; fill: #222; }
  .grid { stroke: #999; stroke-opacity: 0.3; fill: none; }
  .line { fill: none; stroke-width: 1.5; }
  .ours { stroke-width: 3; }
  .hung { fill: #999; fill-opacity: 0.18; }
  @media (prefers-color-scheme: dark) { text { fill: #bbb; } .title { fill: #eee; } }`;

const OURS = '#1a9e77';
const OTHERS = [
  '#2f7ed8',
  '#d9822b',
  '#8e5bd0',
  '#c2456b',
  '#7a7a7a',
  '#4aa3a2',
  '#b08d1e',
  '#6b7fd7',
  '#a65628',
  '#999999',
  '#e377c2',
];

/** The pictures of a run, by name. */
export function pictures({ hit, fill, memory, outage }) {
  return {
    hit: hitPicture(hit),
    fill: barsPicture('Cold fill, 16 at once: µs of CPU time per owner', fill.tables[0].rows),
    memory: barsPicture('Heap per owner beyond key and token, 200,000 owners: bytes', memory.tables[1].rows),
    outage: outagePicture(outage),
  };
}

function hitPicture({ tables }) {
  const sizes = tables.filter(({ what }) => /^[\d,]+ owners$/.test(what));
  const ownersOf = ({ what }) => Number(what.replace(/\D/g, ''));
  const series = sizes[1].rows.map(({ name }) => ({
    name,
    points: sizes.map((table) => [ownersOf(table), table.rows.find((row) => row.name === name).cost]),
  }));
  const x = { label: 'owners', scale: 'log', ticks: sizes.map(ownersOf) };
  return linesPicture('An awaited hit, ns', series, x, {
    scale: 'log',
    ticks: ticksUpTo(Math.max(...series.flatMap(({ points }) => points.map(([, ns]) => ns)))),
  });
}

/** From 50 on, three to a power of ten. */
function ticksUpTo(most) {
  const ticks = [50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000];
  return ticks.slice(0, ticks.findIndex((tick) => tick >= most) + 1);
}

function outagePicture({ tables: [{ rows, outageMs, bucketMs }] }) {
  const minutes = (ms) => ms / 60_000;
  const series = rows.map(({ name, failed, expired, buckets }) => ({
    name: [name, failed > 0 && '(calls failed)', expired > 0 && '(expired)'].filter(Boolean).join(' '),
    points: buckets.map(({ p99 }, index) => [minutes(index * bucketMs), p99]),
  }));
  const x = {
    label: 'minutes; grey: the endpoint hangs',
    scale: 'linear',
    ticks: [0, 2, 4, 6, 8, 10, 12],
    hung: outageMs.map(minutes),
  };
  return linesPicture('The 99th percentile of a call, s', series, x, {
    scale: 'log',
    ticks: [0.001, 0.01, 0.1, 1, 10, 100, 1_000],
  });
}

const svg = (height, label, parts) =>
  [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 ${height}" role="img" aria-label="${label}">`,
    `<style>${STYLE}</style>`,
    ...[`<text x="16" y="22" class="title">${label}</text>`, ...parts, '</svg>\n'],
  ].join('\n');

const text = (x, y, content, attributes = '') =>
  `<text x="${x.toFixed(0)}" y="${y.toFixed(0)}" ${attributes}>${content}</text>`;
const colourOf = (name, index) => (name.startsWith('ours') ? OURS : OTHERS[index % OTHERS.length]);

function linesPicture(title, series, x, y) {
  const atX = scaled(x, 70, 540);
  const atY = scaled(y, 320, 40);
  const grid = y.ticks.map((tick) => `<path d="M70 ${atY(tick).toFixed(1)}H540" class="grid"/>`);
  const labels = [
    ...y.ticks.map((tick) => text(62, atY(tick) + 4, tick.toLocaleString('en'), 'text-anchor="end"')),
    ...x.ticks.map((tick) => text(atX(tick), 340, tick.toLocaleString('en'), 'text-anchor="middle"')),
    text(305, 362, x.label, 'text-anchor="middle"'),
  ];
  const hung = x.hung
    ? [`<rect class="hung" x="${atX(x.hung[0])}" y="40" width="${atX(x.hung[1]) - atX(x.hung[0])}" height="280"/>`]
    : [];
  const lines = series.flatMap(({ name, points }, index) => {
    const style = `class="line${name.startsWith('ours') ? ' ours' : ''}" stroke="${colourOf(name, index)}"`;
    const d = points.map(([a, b]) => `${atX(a).toFixed(1)} ${atY(b).toFixed(1)}`).join('L');
    const legend = 56 + 20 * index;
    return [`<path d="M${d}" ${style}/>`, `<path d="M556 ${legend}H576" ${style}/>`, text(582, legend + 4, name)];
  });
  return svg(372, title, [...hung, ...grid, ...labels, ...lines]);
}

function scaled({ scale, ticks }, from, to) {
  const value = scale === 'log' ? Math.log : Number;
  const [least, most] = [value(ticks[0]), value(ticks.at(-1))];
  return (at) => from + ((to - from) * (Math.min(Math.max(value(at), least), most) - least)) / (most - least);
}

function barsPicture(title, rows) {
  const most = Math.max(...rows.map(({ cost }) => cost));
  const bars = rows.flatMap(({ name, cost }, index) => {
    const y = 42 + 24 * index;
    const width = Math.max(1, (440 * cost) / most);
    return [
      text(190, y + 12, name, 'text-anchor="end"'),
      `<rect x="200" y="${y}" width="${width.toFixed(1)}" height="16" fill="${colourOf(name, 0)}"/>`,
      text(208 + width, y + 12, Math.round(cost).toLocaleString('en')),
    ];
  });
  return svg(54 + 24 * rows.length, title, bars);
}
