import { useEffect, useState } from 'preact/hooks';
import type { PreviewView } from '../../control/shapes.ts';
import { ask } from './api.ts';

/** Debounces typing, so that not every key requests a preview. */
const WAIT_MS = 150;

/** The answer that a token request would get. A change of `again` fetches it again. */
export function usePreview(body: object, again: unknown = ''): PreviewView | undefined {
  const [preview, setPreview] = useState<PreviewView | undefined>();
  const text = JSON.stringify(body);
  useEffect(() => {
    let wanted = true;
    const timer = setTimeout(() => {
      ask<PreviewView>('POST', '/api/preview', JSON.parse(text)).then(
        (answer) => wanted && setPreview(answer),
        () => wanted && setPreview(undefined),
      );
    }, WAIT_MS);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [text, again]);
  return preview;
}

export function Preview({ preview }: { preview: PreviewView | undefined }) {
  if (!preview) return <pre class="preview">This rule is not valid yet.</pre>;
  const { status, headers, body, note } = preview;
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return (
    <div class="preview">
      {note && <p>{note}</p>}
      {status !== undefined && (
        <pre>{[`HTTP/1.1 ${status}`, ...head, ...(body ? ['', pretty(body)] : [])].join('\n')}</pre>
      )}
    </div>
  );
}

/** JSON is indented; anything else stays as it is. */
function pretty(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), undefined, 2);
  } catch {
    return body;
  }
}
