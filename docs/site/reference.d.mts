import type { ProjectReflection } from 'typedoc';

/** The reference as Markdown. */
export function referenceOf(project: ProjectReflection): string;
