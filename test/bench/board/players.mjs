/** Who plays: ours, and those that one would pick instead. */

import { peers } from '../peers/index.mjs';
import { ours } from './ours.mjs';

export const players = [ours, ...peers];
export const idOf = ({ packages: [name] }) => name.split('/').at(-1);
export const playerOf = (id) => players.find((player) => idOf(player) === id);
