// Where a type of TypeScript ends. Every function takes a place in the code and gives the place after what it is named
// for, or -1 where there is no such thing.

const SPACE = /(?:\s|\/\/.*|\/\*[\s\S]*?\*\/)*/y;
const BLANK = /[ \t]*/y;
const NAME = /[\p{ID_Start}$_][\p{ID_Continue}$]*/uy;
const LITERAL = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|-?\d[\w.]*/y;
const PREFIX = /(?:keyof|unique|readonly|infer|asserts)(?=\s+[\p{ID_Start}$_({[])/uy;
const MODIFIER = /(?:const|in|out)(?=\s+[\p{ID_Start}$_])/uy;

// `closed` gives the place after the bracket that closes the one at a place.
function typesOf(code, closed) {
  const match = (pattern, at) => {
    pattern.lastIndex = at;
    const found = pattern.exec(code);
    return found ? pattern.lastIndex : -1;
  };
  const skip = (at) => match(SPACE, at);
  const has = (text, at) => code.startsWith(text, at);
  const word = (text, at) => {
    const end = match(NAME, at);
    return end >= 0 && code.slice(at, end) === text ? end : -1;
  };

  // Things between commas, up to a sign that ends them.
  function list(at, element, end) {
    let place = skip(at);
    for (;;) {
      if (has(end, place)) return place + end.length;
      place = element(place);
      if (place < 0) return -1;
      place = skip(place);
      if (has(',', place)) place = skip(place + 1);
      else if (!has(end, place)) return -1;
    }
  }

  function typeArguments(at) {
    const end = has('<', at) ? list(at + 1, type, '>') : -1;
    return end > at + 2 ? end : -1;
  }

  function typeParameters(at) {
    return has('<', at) ? list(at + 1, typeParameter, '>') : -1;
  }

  function typeParameter(at) {
    let place = at;
    for (let end = match(MODIFIER, place); end >= 0; end = match(MODIFIER, place)) place = skip(end);
    place = match(NAME, place);
    const bound = place < 0 ? -1 : word('extends', skip(place));
    if (bound >= 0) place = type(bound);
    const next = place < 0 ? -1 : skip(place);
    return next >= 0 && has('=', next) && !has('=>', next) ? type(next + 1) : place;
  }

  function type(at) {
    let place = union(skip(at));
    if (place < 0) return -1;
    const is = word('is', match(BLANK, place));
    if (is >= 0) return type(is);
    const extended = word('extends', skip(place));
    if (extended < 0) return place;
    place = union(skip(extended));
    for (const sign of ['?', ':']) {
      if (place < 0 || !has(sign, skip(place))) return -1;
      place = type(skip(place) + 1);
    }
    return place;
  }

  function union(at) {
    let place = has('|', at) || has('&', at) ? skip(at + 1) : at;
    place = prefixed(place);
    while (place >= 0) {
      const next = skip(place);
      if (!/^(?:\|(?![|=])|&(?![&=]))/.test(code.slice(next, next + 2))) return place;
      place = prefixed(skip(next + 1));
    }
    return -1;
  }

  function prefixed(at) {
    const end = match(PREFIX, at);
    if (end >= 0) return prefixed(skip(end));
    let place = primary(at);
    while (place >= 0) {
      const next = match(BLANK, place);
      if (!has('[', next)) return place;
      place = closed(next);
    }
    return -1;
  }

  function functionType(at) {
    const named = has('<', at) ? typeParameters(at) : at;
    if (named < 0 || !has('(', skip(named))) return -1;
    const end = closed(skip(named));
    return end >= 0 && has('=>', skip(end)) ? type(skip(end) + 2) : -1;
  }

  function primary(at) {
    if (has('(', at) || has('<', at)) {
      const end = functionType(at);
      return end < 0 && has('(', at) ? closed(at) : end;
    }
    if (['{', '[', '`'].includes(code[at])) return closed(at);
    const literal = match(LITERAL, at);
    if (literal >= 0) return literal;
    const abstract = word('abstract', at);
    const made = word('new', abstract >= 0 && word('new', skip(abstract)) >= 0 ? skip(abstract) : at);
    if (made >= 0) return functionType(skip(made));
    const asked = word('typeof', at);
    if (asked >= 0) return primary(skip(asked));
    let place = match(NAME, at);
    if (place >= 0 && code.slice(at, place) === 'import' && has('(', place)) place = closed(place);
    while (place >= 0 && has('.', place)) place = match(NAME, place + 1);
    if (place < 0) return -1;
    const next = match(BLANK, place);
    if (!has('<', next)) return place;
    return typeArguments(next);
  }

  return { skip, type, typeArguments, typeParameters };
}

return { typesOf };
