/** Who plays: ours, and the libraries that you might choose instead. */

import { peers } from '../peers/index.mjs';
import { ours } from './ours.mjs';

export const players = [ours, ...peers];
export const idOf = ({ name }) => name.split(' ')[0];
export const playerOf = (id) => players.find((player) => idOf(player) === id);
