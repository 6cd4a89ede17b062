import type { Arbitrary } from 'fast-check';

/** What is fuzzed, with what, and what must hold of each input. */
export interface Target<Input> {
  readonly name: string;
  /** Plain data, so that an input can be kept in the corpus. */
  readonly inputs: Arbitrary<Input>;
  /** Prepares what all inputs share. */
  open(): Promise<Opened<Input>>;
}

export interface Opened<Input> {
  /** Throws what does not hold. */
  check(input: Input): void | Promise<void>;
  close?(): Promise<void>;
}

/** A target that shares nothing between its inputs. */
export const targetOf = <Input>(
  name: string,
  inputs: Arbitrary<Input>,
  check: (input: Input) => void | Promise<void>,
): Target<Input> => ({ name, inputs, open: async () => ({ check }) });

/** Something that must hold. */
export function must(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise);
}
