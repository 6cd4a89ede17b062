import { useState } from 'preact/hooks';
import { countWord, plural, sentence, timeWord } from '../../page-engine/words.ts';
import type { RegistryStats } from '../../registry/stats.ts';
import { lapsedWord, sentenceOf, sinceWord, utcWord } from '../sentence.ts';
import type { Cause, Facts } from '../status.ts';

/** The most important in a sentence, above everything else. */
export function Verdict(props: { status: Facts; stats: RegistryStats; dashboardUrl: string | undefined }) {
  const { status, stats, dashboardUrl } = props;
  const { lapsed } = stats.withoutService;
  const [first] = status.causes;
  const look =
    status.unserved > 0 || status.service === 'fails'
      ? 'alarm'
      : status.causes.length > 0 || status.slowService
        ? 'warning'
        : 'passed';
  return (
    <section class={`verdict ${look}`} aria-label="Verdict">
      <p class="sentence">{sentenceOf(status, timeWord)}</p>
      {first && <p class="todo">{adviceWord(first)}</p>}
      {lapsed && <p class="hint">{lapsedWord(lapsed, status.atMs)}</p>}
      <p class="row">
        <Copy word="Copy as text" text={() => incidentText(status)} />
        <Copy word="Copy as JSON" text={() => JSON.stringify(status, null, 2)} />
        {dashboardUrl !== undefined && <a href={dashboardUrl}>Dashboard of all replicas</a>}
      </p>
    </section>
  );
}

/** Who is responsible, and the next step. */
export const adviceWord = ({ fault, todo }: Cause): string =>
  `Responsible: ${lowered(fault)}. Next step: ${lowered(todo)}.`;

const lowered = (words: string) => words.charAt(0).toLowerCase() + words.slice(1);

/** For a ticket or a chat, in UTC. */
function incidentText(status: Facts): string {
  const time = utcWord(status.atMs);
  const causes = status.causes.map(({ code, status: http, message, fault, todo, sinceMs, owners, unserved, runbook }) =>
    [
      `- ${[code, http].filter(Boolean).join(' ')} ${sinceWord(sinceMs, status, time)}: ${plural(owners, 'owner')}, ${countWord(unserved)} without service.`,
      `${sentence(message)}. ${fault}. ${todo}.`,
      ...(runbook === undefined ? [] : [runbook]),
    ].join(' '),
  );
  return [`${status.registry}, ${time(status.atMs)}: ${sentenceOf(status, time)}`, ...causes].join('\n');
}

/** Shows the text instead where the clipboard may not be used: it takes https. */
function Copy({ word, text }: { word: string; text: () => string }) {
  const [shown, show] = useState<string>();
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      show('');
    } catch {
      show(text());
    }
  };
  return (
    <>
      <button type="button" onClick={() => void copy()}>
        {shown === '' ? 'Copied' : word}
      </button>
      {shown && <textarea class="copy" readOnly={true} aria-label={word} value={shown} />}
    </>
  );
}
