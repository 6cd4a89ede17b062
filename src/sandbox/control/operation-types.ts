/** The types of requests and answers, derived from the descriptions in openapi.ts. */

import type {
  AppView,
  ClockView,
  ControlError,
  CredentialsView,
  LedgerEntry,
  LedgerSummary,
  OwnerView,
  PictureView,
  PreviewView,
  ScenarioRun,
  ScenarioVerdict,
  ScenarioView,
  StateView,
  TryView,
} from '../api-types.ts';
import type { Fact } from '../state/facts.ts';
import type { ActiveFault, FaultRule } from '../state/fault-rules.ts';
import type { Profile, ProfileChanges } from '../state/profile.ts';
import type { OPERATIONS, OperationId } from './openapi.ts';

/** By the name of their schema in schemas.ts. */
interface Shapes {
  ActiveFault: ActiveFault;
  AppView: AppView;
  ClockView: ClockView;
  ControlError: ControlError;
  CredentialsView: CredentialsView;
  Ended: { ended: boolean };
  Fact: Fact;
  FaultRule: FaultRule;
  Health: { status: string };
  LedgerEntry: LedgerEntry;
  LedgerSummary: LedgerSummary;
  OpenApi: object;
  OwnerView: OwnerView;
  PictureView: PictureView;
  PreviewView: PreviewView;
  Profile: Profile;
  ProfileChanges: ProfileChanges;
  Revoked: { revoked: number };
  ScenarioRun: ScenarioRun;
  ScenarioVerdict: ScenarioVerdict;
  ScenarioView: ScenarioView;
  Seeded: { owners: number };
  StateView: StateView;
  TryView: TryView;
}

interface Values {
  string: string;
  number: number;
  boolean: boolean;
  object: FaultRule;
}

type ValueOf<Type> = Type extends `${infer Name extends keyof Values}?`
  ? Values[Name]
  : Type extends keyof Values
    ? Values[Type]
    : never;

/** An object with these members. A type that ends with `?` is optional. */
type MembersOf<Types> = {
  readonly [Name in keyof Types as Types[Name] extends `${string}?` ? never : Name]: ValueOf<Types[Name]>;
} & { readonly [Name in keyof Types as Types[Name] extends `${string}?` ? Name : never]?: ValueOf<Types[Name]> };

type Operations = typeof OPERATIONS;
type BodyOf<Body> = Body extends keyof Shapes ? Shapes[Body] : MembersOf<Body>;
type NamesIn<Path> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never;

/** A request whose body and query have been checked against its description. */
export interface RequestOf<Id extends OperationId> {
  readonly path: Readonly<Record<NamesIn<Id>, string>>;
  readonly query: Operations[Id] extends { query: infer Query } ? MembersOf<Query> : unknown;
  readonly body: Operations[Id] extends { body: infer Body } ? BodyOf<Body> : unknown;
}

export type AnswerOf<Id extends OperationId> = Operations[Id]['gives'] extends `${infer Name extends keyof Shapes}[]`
  ? readonly Shapes[Name][]
  : Operations[Id]['gives'] extends keyof Shapes
    ? Shapes[Operations[Id]['gives']]
    : never;
