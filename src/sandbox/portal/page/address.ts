import { useEffect, useState } from 'preact/hooks';

/**
 * The address holds what is shown: `#/live?window=300000&search=7&request=12`. A link to it, a reload and the browser's
 * back button lead to the same view.
 */
export interface Address {
  readonly screen: string;
  readonly params: Readonly<Record<string, string>>;
}

export function addressOf(hash: string): Address {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  return { screen: path, params: Object.fromEntries(new URLSearchParams(query)) };
}

export function hashOf(screen: string, params: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(params).filter((entry): entry is [string, string] => !!entry[1]);
  const query = new URLSearchParams(given).toString();
  return `#/${screen}${query && `?${query}`}`;
}

/** Changes parameters of the address in place. An empty or undefined value removes one. */
export function setParams(changes: Readonly<Record<string, string | undefined>>): void {
  const { screen, params } = addressOf(location.hash);
  history.replaceState(null, '', hashOf(screen || 'live', { ...params, ...changes }));
  dispatchEvent(new Event('addresschange'));
}

/** The request whose details are open, and what opens another one or none. */
export function useSelected(): [selected: number | undefined, select: (id: number | undefined) => void] {
  const { params } = useAddress();
  return [Number(params.request) || undefined, (id) => setParams({ request: id?.toString() })];
}

export function useAddress(): Address {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    // It may have changed since this was rendered.
    follow();
    addEventListener('hashchange', follow);
    addEventListener('addresschange', follow);
    return () => {
      removeEventListener('hashchange', follow);
      removeEventListener('addresschange', follow);
    };
  }, []);
  return addressOf(hash);
}
