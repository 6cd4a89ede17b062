import { useEffect, useState } from 'preact/hooks';
import { type Address, addressOf, type Changes, changedHash } from './address.ts';

/** A link that changes a part of the address. */
export const hashWith = (changes: Changes): string => changedHash(location.hash, changes);

export function useAddress(): [Address, (changes: Changes) => void] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  const change = (changes: Changes) => {
    history.replaceState(null, '', hashWith(changes));
    setHash(location.hash);
  };
  return [addressOf(hash), change];
}
