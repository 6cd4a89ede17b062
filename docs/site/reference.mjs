/**
 * A plugin of TypeDoc that writes docs/api.md, the reference of the API on one page: TypeDoc reads the doc comments and
 * checks that nothing lacks one; what a page shows of them, and how, is decided here.
 *
 *   npm run docs:api
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { ReflectionKind } from 'typedoc';
import { signatureText, typeText } from './reference-types.mjs';

export function load(app) {
  app.outputs.addOutput('reference', async (path, project) => writeFileSync(path, referenceOf(project)));
}

/** @param project what TypeDoc has read */
export function referenceOf(project) {
  return new Reference(project).page();
}

const INTRODUCTION = `# API reference

Every export with its members, made from the doc comments that your editor shows too (\`npm run docs:api\`). The examples run in the
tests, with the \`registry\`, \`sandbox\`, \`baseUrl\`, \`clientId\`, \`clientSecret\` and \`accessKey\` of [getting started](getting-started.md).
What to choose and what to do: [options](options.md), [errors](errors.md), [observability](observability.md).`;

const ORDER = [
  'index',
  'redis',
  'otel',
  'otel/instrumentation',
  'otel/prom-client',
  'live-view',
  'adapters',
  'sandbox',
];
const orderOf = ({ name }) => ORDER.indexOf(ORDER.includes(name) ? name : name.split('/')[0]);
/** Classes and functions first: the types are looked up from there. */
const KINDS = [ReflectionKind.Class, ReflectionKind.Function, ReflectionKind.Variable, ReflectionKind.Interface];
const rankOf = ({ kind }) => KINDS.indexOf(kind) + 1 || KINDS.length + 1;

const importOf = (name) => `owner-token-registry${name === 'index' ? '' : `/${name}`}`;
const code = (lines) => `\`\`\`ts\n${lines.join('\n')}\n\`\`\``;
const oneLine = (text) => text.replaceAll('\n', ' ');
const cell = (text) => oneLine(text).replaceAll('|', '\\|');
/** What `instanceof`, `util.inspect` and `await using` call is no member to look up. */
const isShown = ({ name, flags }) => !name.startsWith('[') && !flags.isPrivate;
const membersOf = ({ children, type }) => (children ?? type?.declaration?.children ?? []).filter(isShown);
const headingOf = ({ name, kind, parent }) =>
  kind === ReflectionKind.Constructor ? `new ${parent.name}` : `${parent.name}.${name}`;

class Reference {
  /** Each module with its exports, in the order of the page. What an entry point exports again stands where it is declared. */
  #modules;
  #examples = examplesOfMethods();
  #anchors = new Map();

  constructor(project) {
    this.#modules = [...project.children]
      .sort((a, b) => orderOf(a) - orderOf(b))
      .map(({ name, children }) => ({
        name,
        own: children
          .filter(({ kind }) => kind !== ReflectionKind.Reference)
          .sort((a, b) => rankOf(a) - rankOf(b) || (a.name < b.name ? -1 : 1)),
        again: children.filter(({ kind }) => kind === ReflectionKind.Reference),
      }));
    this.#nameAnchors();
  }

  page() {
    const contents = this.#modules.map((module) => {
      const all = [...module.own, ...module.again.map((each) => each.getTargetReflectionDeep())];
      const links = all.map((each) => `[\`${each.name}\`](#${this.#anchors.get(each)})`);
      return `- [\`${importOf(module.name)}\`](#${this.#anchors.get(module)}): ${links.join(' · ')}`;
    });
    const sections = this.#modules.flatMap(({ name, own }) => [
      `## ${importOf(name)}`,
      ...own.flatMap((each) => [`### ${each.name}`, ...this.#describe(each)]),
    ]);
    if (this.#examples.size > 0) {
      throw new Error(
        `docs/site/examples.md has examples of what does not exist: ${[...this.#examples.keys()].join(', ')}`,
      );
    }
    const tables = ['## Errors', errorTable(), '## Channels', this.#channelTable()];
    return `${[INTRODUCTION, `${contents.join('\n')}\n- [Errors](#errors) · [Channels](#channels)`, ...sections, ...tables].join('\n\n')}\n`;
  }

  /** As GitHub derives them from the headings: the second of a kind gets a number. */
  #nameAnchors() {
    const counts = new Map();
    const name = (reflection, heading) => {
      const slug = heading
        .toLowerCase()
        .replace(/[^\w -]/g, '')
        .replaceAll(' ', '-');
      const count = counts.get(slug) ?? 0;
      counts.set(slug, count + 1);
      this.#anchors.set(reflection, count === 0 ? slug : `${slug}-${count}`);
    };
    for (const module of this.#modules) {
      name(module, importOf(module.name));
      for (const each of module.own) {
        name(each, each.name);
        if (each.kind === ReflectionKind.Class) for (const member of membersOf(each)) name(member, headingOf(member));
      }
    }
  }

  #describe(reflection) {
    const { name, kind, signatures, type } = reflection;
    const members = membersOf(reflection);
    if (kind === ReflectionKind.Function) return this.#callable(name, signatures);
    if (kind === ReflectionKind.Class) {
      return [...this.#comment(reflection), ...members.flatMap((member) => this.#describeMember(member))];
    }
    return [
      ...(kind === ReflectionKind.TypeAlias ? [code([`type ${name} = ${typeText(type)}`])] : []),
      ...(kind === ReflectionKind.Variable ? [code([`const ${name}: ${typeText(type)}`])] : []),
      ...this.#comment(reflection),
      ...(members.length > 0 ? [this.#table(members)] : []),
    ];
  }

  #describeMember(member) {
    const heading = headingOf(member);
    const example = this.#examples.get(heading);
    this.#examples.delete(heading);
    const name = member.kind === ReflectionKind.Constructor ? heading : member.name;
    const parts = member.signatures
      ? this.#callable(name, member.signatures)
      : [code([memberText(member)]), ...this.#comment(documented(member))];
    return [`#### ${heading}`, ...parts, ...(example ? [example] : [])];
  }

  #callable(name, signatures) {
    const [first] = signatures;
    const parameters = (first.parameters ?? [])
      .filter(({ comment }) => comment)
      .map(({ name: parameter, comment }) => `- \`${parameter}\`: ${oneLine(this.#text(comment.summary))}`);
    const [about, ...rest] = this.#comment(first);
    return [
      code(signatures.map((each) => signatureText(name, each))),
      ...(about ? [about] : []),
      ...(parameters.length > 0 ? [parameters.join('\n')] : []),
      ...rest,
    ];
  }

  #table(members) {
    const rows = members.map((member) => {
      const text = memberText(member).replace(/^readonly /, '');
      return `| \`${cell(text)}\` | ${cell(this.#comment(documented(member)).join(' '))} |`;
    });
    return ['| member | |', '|---|---|', ...rows].join('\n');
  }

  /** The paragraphs of a comment: its text, then what is returned and thrown, then the example. */
  #comment({ comment }) {
    if (!comment) return [];
    const labels = { '@returns': 'Returns ', '@throws': 'Throws ', '@see': 'See ', '@example': '' };
    const blocks = comment.blockTags
      .filter(({ tag }) => tag in labels)
      .map(({ tag, content }) => labels[tag] + this.#text(content).replace(/^- /, ''));
    return [this.#text(comment.summary), ...blocks].filter((text) => text !== '');
  }

  #text(parts) {
    return parts
      .map(({ kind, text, target }) => {
        if (kind !== 'inline-tag') return text;
        return typeof target === 'string' ? `[${text}](${target})` : `[\`${text}\`](#${this.#anchorOf(target)})`;
      })
      .join('')
      .trim();
  }

  /** Of the heading under which it is described: its own, or that of the type that it is a member of. */
  #anchorOf(reflection) {
    return this.#anchors.get(reflection) ?? this.#anchorOf(reflection.parent);
  }

  /** The messages say in their first sentence which channel they are of. */
  #channelTable() {
    const messages = this.#modules.flatMap(({ own }) => own).filter(({ name }) => name.endsWith('Message'));
    const rows = messages.map((each) => {
      const [, channel] = /of `([^`]+)`/.exec(this.#text(each.comment.summary));
      return `| \`${channel}\` | [\`${each.name}\`](#${this.#anchors.get(each)}) |`;
    });
    return ['| channel | message |', '|---|---|', ...rows].join('\n');
  }
}

/** Where the comment is: of a method, at its signature; of a property that is a function, at its type. */
function documented(member) {
  const [method] = member.signatures ?? [];
  const [called] = member.type?.declaration?.signatures ?? [];
  return method ?? member.getSignature ?? (member.comment ? member : (called ?? member));
}

function memberText(member) {
  const { name, flags, signatures, getSignature, type } = member;
  const label = name + (flags.isOptional ? '?' : '');
  if (signatures) return signatures.map((each) => signatureText(label, each)).join('; ');
  return `${flags.isReadonly || getSignature ? 'readonly ' : ''}${label}: ${typeText(getSignature?.type ?? type)}`;
}

/** Examples of methods, whose doc comments are short: `## Class.method`, then one block of code. */
function examplesOfMethods() {
  const [, ...sections] = readFileSync(new URL('examples.md', import.meta.url), 'utf8').split(/^## /m);
  return new Map(sections.map((section) => [section.split('\n', 1)[0], /```ts\n[\s\S]*?```/.exec(section)?.[0]]));
}

/** The codes of errors as the page of errors has them, which a test compares with the code. */
function errorTable() {
  const page = readFileSync(new URL('../errors.md', import.meta.url), 'utf8');
  const [, ...rows] = /^\| code \|[\s\S]*?(?=\n\n)/m.exec(page)[0].split('\n');
  const cells = rows.slice(1).map((row) => row.split(' | '));
  const short = cells.map(
    ([name, escalatesTo, retryable, meaning]) => `${name} | ${retryable} | ${escalatesTo} | ${meaning} |`,
  );
  return ['| code | retryable | escalates to | what happened |', '|---|---|---|---|', ...short].join('\n');
}
