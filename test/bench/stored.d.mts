export function pagesWithFigures(): Record<string, string>;
