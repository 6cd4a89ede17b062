import { describe } from 'vitest';
import { LOAD, testScenes } from './judged.ts';

describe('O1', () => testScenes((heading) => !LOAD.includes(heading)));
