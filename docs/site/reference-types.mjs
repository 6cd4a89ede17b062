/** Types and signatures as one would write them. */

/** `getToken(accessKey: string): Promise<AccessToken>` */
export function signatureText(name, { parameters = [], typeParameters = [], type }, arrow = ': ') {
  const generics = typeParameters.map((each) => each.name + (each.type ? ` extends ${typeText(each.type)}` : ''));
  const given = parameters.map((each) => {
    const isOptional = each.flags.isOptional || each.defaultValue !== undefined;
    return `${each.flags.isRest ? '...' : ''}${each.name}${isOptional ? '?' : ''}: ${typeText(each.type)}`;
  });
  const result = name.startsWith('new ') ? '' : arrow + typeText(type);
  return `${name}${generics.length > 0 ? `<${generics.join(', ')}>` : ''}(${given.join(', ')})${result}`;
}

export function typeText(type) {
  switch (type?.type) {
    case 'union':
      // TypeScript orders them by which file it has read first.
      return type.types
        .filter((each) => each.name !== 'undefined' || type.types.length < 2)
        .map(inUnion)
        .sort((a, b) => (a === 'null') - (b === 'null') || (a < b ? -1 : 1))
        .join(' | ');
    case 'intersection':
      return type.types.map(inUnion).join(' & ');
    case 'array':
      return `${['union', 'intersection', 'reflection'].includes(type.elementType.type) ? `(${typeText(type.elementType)})` : typeText(type.elementType)}[]`;
    case 'reference':
      return type.name + (type.typeArguments?.length ? `<${type.typeArguments.map(typeText).join(', ')}>` : '');
    case 'typeOperator':
      return `${type.operator} ${typeText(type.target)}`;
    case 'tuple':
      return `[${type.elements.map(typeText).join(', ')}]`;
    case 'namedTupleMember':
      return `${type.name}${type.isOptional ? '?' : ''}: ${typeText(type.element)}`;
    case 'rest':
      return `...${typeText(type.elementType)}`;
    case 'reflection':
      return declarationText(type.declaration);
    default:
      return String(type);
  }
}

/** A function in a union needs parentheses. */
const inUnion = (type) =>
  type.type === 'reflection' && type.declaration.signatures ? `(${typeText(type)})` : typeText(type);

function declarationText({ signatures, children = [], indexSignatures = [] }) {
  if (signatures) return signatureText('', signatures[0], ' => ');
  const indexed = indexSignatures.map(
    ({ parameters: [key], type }) => `[${key.name}: ${typeText(key.type)}]: ${typeText(type)}`,
  );
  const members = children.map(({ name, flags, signatures: [method] = [], type }) => {
    const label = name + (flags.isOptional ? '?' : '');
    return method ? signatureText(label, method) : `${label}: ${typeText(type)}`;
  });
  return `{ ${[...members, ...indexed].join('; ')} }`;
}
