/** The server's side of a page: it sends whole states, to each reader the part that it looks at. */

export interface State {
  /** What advances by itself, which is no change. */
  readonly clock: object;
  readonly picture: { readonly lanes?: readonly unknown[] };
}

/** A picture as it is sent: without lanes that have not changed. */
export type Sent<Picture extends { readonly lanes: unknown }> = Omit<Picture, 'lanes'> &
  Partial<Pick<Picture, 'lanes'>>;

/** Sends a text to a reader. */
type Send = (text: string) => void;

/** A state as JSON, in the parts that are compared. */
type Texts = Readonly<Record<'clock' | 'lanes' | 'picture' | 'rest', string>>;

/** What some readers look at. */
interface View {
  readonly look: () => State;
  readonly readers: Set<Send>;
  sent?: Texts | undefined;
  unchanged: number;
}

/** After so many updates without a change the state is sent all the same, because proxies cut a silent connection. */
const MAX_UNCHANGED = 15;

/**
 * Server-sent events named `update`. Each is the whole state, and is sent only if that has changed; it leaves out the lanes, which
 * are most of it, if these have not.
 *
 * @see {@link https://html.spec.whatwg.org/multipage/server-sent-events.html HTML, server-sent events}
 */
export class StateStream {
  readonly #views = new Map<string, View>();

  /** How many readers there are. */
  get size(): number {
    let readers = 0;
    for (const view of this.#views.values()) readers += view.readers.size;
    return readers;
  }

  /** Adds a reader, and returns how it leaves. @param key the same for all readers that look at the same. */
  join(key: string, look: () => State, send: Send): () => void {
    const view = this.#views.get(key) ?? { look, readers: new Set(), unchanged: 0 };
    this.#views.set(key, view);
    view.readers.add(send);
    // The others of this view get all of it once more: from now on they have been sent the same.
    view.sent = undefined;
    update(view);
    return () => {
      if (view.readers.delete(send) && view.readers.size === 0) this.#views.delete(key);
    };
  }

  /** Sends what has changed. */
  update(): void {
    for (const view of this.#views.values()) update(view);
  }
}

function update(view: View): void {
  const { sent } = view;
  const now = textsOf(view.look());
  const hasLanes = now.lanes !== sent?.lanes;
  const isSame = !hasLanes && now.rest === sent?.rest && now.picture === sent?.picture;
  if (isSame && ++view.unchanged < MAX_UNCHANGED) return;
  view.sent = now;
  view.unchanged = 0;
  const event = eventOf(now, hasLanes);
  for (const send of view.readers) send(event);
}

function textsOf({ clock, picture: { lanes = [], ...picture }, ...rest }: State): Texts {
  const [ofClock, ofLanes, ofPicture, ofRest] = [clock, lanes, picture, rest].map((part) => JSON.stringify(part));
  return { clock: ofClock, lanes: ofLanes, picture: ofPicture, rest: ofRest } as Texts;
}

function eventOf({ clock, lanes, picture, rest }: Texts, hasLanes: boolean): string {
  const shown = hasLanes ? withMember(picture, 'lanes', lanes) : picture;
  return `event: update\ndata: ${withMember(withMember(rest, 'picture', shown), 'clock', clock)}\n\n`;
}

/** The JSON of an object, which is not empty, with one more member. */
const withMember = (object: string, name: string, value: string): string => `{"${name}":${value},${object.slice(1)}`;
