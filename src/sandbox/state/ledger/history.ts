/** What happened to the sandbox itself, for the time rail: faults, scenarios, frozen time and clock jumps. */

export interface Band {
  readonly id: number;
  readonly kind: 'fault' | 'scenario' | 'frozen' | 'jump';
  /** The kind of the fault or the name of the scenario. */
  readonly name?: string;
  /** Epoch ms by the sandbox's clock. */
  readonly fromMs: number;
  /** Absent: it continues. A frozen span has no length on the sandbox's clock. */
  toMs?: number;
}

/** A fault rule as far as the time rail shows it. */
export interface FaultSpan {
  readonly id: string;
  readonly kind: string;
  readonly used: boolean;
  readonly endsAtMs: number | undefined;
}

const KEPT_BANDS = 500;

export class History {
  #bands: Band[] = [];
  #lastId = 0;
  readonly #faults = new Map<string, Band>();
  #frozen: Band | undefined;

  /** The bands that ended after a time or continue. */
  since(fromMs: number): Band[] {
    return this.#bands.filter(({ toMs }) => toMs === undefined || toMs >= fromMs).map((band) => ({ ...band }));
  }

  /** @param toMs when it will end, where that is known. */
  begin(kind: Band['kind'], fromMs: number, name?: string, toMs?: number): Band {
    const known = { ...(name !== undefined && { name }), ...(toMs !== undefined && { toMs }) };
    const band: Band = { id: ++this.#lastId, kind, fromMs, ...known };
    this.#bands.push(band);
    if (this.#bands.length > KEPT_BANDS) this.#bands = this.#bands.slice(-KEPT_BANDS);
    return band;
  }

  end(band: Band, toMs: number): void {
    band.toMs = Math.min(band.toMs ?? toMs, toMs);
  }

  jump(fromMs: number, toMs: number): void {
    this.end(this.begin('jump', fromMs), toMs);
  }

  /** Call it when fault rules were added, removed or used up. */
  followFaults(rules: readonly FaultSpan[], nowMs: number): void {
    const active = new Map(rules.filter(({ used }) => !used).map((rule) => [rule.id, rule]));
    for (const [id, band] of this.#faults) {
      if (active.has(id)) continue;
      this.end(band, nowMs);
      this.#faults.delete(id);
    }
    for (const [id, { kind, endsAtMs }] of active) {
      if (this.#faults.has(id)) continue;
      this.#faults.set(id, this.begin('fault', nowMs, kind, endsAtMs));
    }
  }

  freeze(frozen: boolean, nowMs: number): void {
    if (frozen) this.#frozen ??= this.begin('frozen', nowMs);
    else if (this.#frozen) this.end(this.#frozen, nowMs);
    if (!frozen) this.#frozen = undefined;
  }

  clear(): void {
    this.#bands = [];
    this.#faults.clear();
  }
}
