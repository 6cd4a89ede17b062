import http from 'node:http';
import type { UpdateFrame } from '../../src/sandbox/control/shapes.ts';

export interface StreamEvent {
  frame: UpdateFrame;
}

/** A reader of the event stream, as plain as they come. */
export class EventsReader {
  readonly events: StreamEvent[] = [];
  readonly response: http.IncomingMessage;
  /** What came outside of events: the retry time, heartbeats. */
  readonly others: string[] = [];
  #text = '';
  #wake: () => void = () => {};

  static open(portalUrl: string): Promise<EventsReader> {
    return new Promise((resolve, reject) => {
      const req = http.get(`${portalUrl}/api/events`, { agent: false }, (res) => {
        resolve(new EventsReader(res));
      });
      req.on('error', reject);
    });
  }

  constructor(response: http.IncomingMessage) {
    this.response = response;
    response.setEncoding('utf8');
    response.on('error', () => {});
    response.on('data', (chunk: string) => {
      this.#text += chunk;
      this.#parse();
    });
  }

  /** Waits for the first event, seen or to come, that fits. */
  async until(fits: (event: StreamEvent) => boolean): Promise<StreamEvent> {
    for (;;) {
      const found = this.events.find(fits);
      if (found) return found;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  close(): void {
    this.response.destroy();
  }

  #parse(): void {
    const blocks = this.#text.split('\n\n');
    this.#text = blocks.pop() ?? '';
    for (const block of blocks) {
      const fields = new Map(block.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]));
      const data = fields.get('data');
      if (fields.get('event') === 'update' && data) this.events.push({ frame: JSON.parse(data) });
      else this.others.push(block);
    }
    this.#wake();
  }
}
