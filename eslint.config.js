/**
 * What needs types, because promises that nobody waits for are how requests start twice and rejections go unhandled; and
 * what Biome has no rule for.
 */

import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

export default defineConfig(
  { ignores: ['dist/', 'coverage/', 'reports/', 'node_modules/', 'test/bench/', '.stryker-tmp/'] },
  {
    files: ['src/**/*.ts', 'src/**/*.tsx', 'test/**/*.ts', '*.config.ts'],
    languageOptions: {
      parser: tseslint.parser,
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    plugins: { '@typescript-eslint': tseslint.plugin },
    rules: {
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/only-throw-error': 'error',
      '@typescript-eslint/return-await': ['error', 'error-handling-correctness-only'],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      'no-restricted-syntax': [
        'error',
        {
          selector: 'ObjectExpression > SpreadElement > ObjectExpression',
          message: 'Write the properties out: a spread of a literal only keeps the formatter from doing so.',
        },
      ],
    },
  },
  {
    // Tests throw what is no error on purpose, to see how it is taken.
    files: ['test/**/*.ts'],
    rules: { '@typescript-eslint/only-throw-error': 'off' },
  },
);
