// TypeScript as JavaScript: types become spaces, so that all else stays where it was.
//
// Only what has no meaning but a type is taken away; enums and properties that a constructor declares become code.
// What this does not understand it leaves, and compiling tells.

const { CONTROL_WORDS, canEnd, scan } = load('tokens');
const { typesOf } = load('types');

const MODIFIERS = new Set('public private protected readonly override abstract declare'.split(' '));
const OTHER_MODIFIERS = new Set('static async get set accessor'.split(' '));
const DECLARED = new Set('const let var function class abstract enum module namespace global type interface'.split(' '));
const WITH_BODY = new Set('class abstract enum module namespace global interface'.split(' '));

function strip(code) {
  const tokens = scan(code);
  const places = new Map(tokens.map((token, index) => [token.start, index]));
  const { skip, type, typeArguments, typeParameters } = typesOf(code, closed);
  const hidden = new Uint8Array(code.length + 1);
  const insertions = [];
  const kinds = new Map();
  const seen = new Set();
  const stack = [{ kind: 'block', questions: 0 }];
  let before;
  let fresh = true;

  function closed(at) {
    const token = tokens[places.get(at)];
    if (!token) return -1;
    if (token.kind !== 'template') return token.closed === undefined ? -1 : tokens[token.closed].end;
    let last = places.get(at);
    while (tokens[last] && !(tokens[last].depth === token.depth && /.`$/s.test(tokens[last].text))) last += 1;
    return tokens[last] ? tokens[last].end : -1;
  }

  const text = (index) => (tokens[index] ? tokens[index].text : '');
  const isWord = (index) => Boolean(tokens[index]) && tokens[index].kind === 'word';
  const hide = (start, end) => hidden.fill(1, start, end);
  const hideToken = (index) => hide(tokens[index].start, tokens[index].end);

  // The first token at a place or after it.
  function tokenFrom(place) {
    let low = 0;
    let high = tokens.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tokens[middle].start < place) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Hides what `read` finds from a token on, and gives the token after it.
  function hideRead(index, read, from = tokens[index].start) {
    const end = read(from);
    if (end < 0) return index;
    hide(tokens[index].start, end);
    return tokenFrom(end);
  }

  const hideParameters = (index) => (text(index) === '<' ? hideRead(index, typeParameters) : index);
  // From a colon on.
  const hideAnnotation = (index) => (text(index) === ':' ? hideRead(index, type, tokens[index].end) : index);

  function hideStatement(from, to) {
    const end = text(to) === ';' ? to + 1 : to;
    hide(tokens[from].start, end < tokens.length ? tokens[end].start : code.length);
    fresh = true;
  }

  // What is between brackets and commas, as the first token of each.
  function* elements(opening) {
    const inside = tokens[opening].depth + 1;
    yield opening + 1;
    for (let at = opening + 1; at < tokens[opening].closed; at += 1) {
      if (tokens[at].depth === inside && text(at) === ',' && !hidden[tokens[at].start]) yield at + 1;
    }
  }

  // Takes the types from parameters; gives the names that become properties.
  function parameters(opening) {
    const properties = [];
    if (tokens[opening].closed === undefined || seen.has(opening)) return properties;
    seen.add(opening);
    let comma;
    for (const first of elements(opening)) {
      let at = first;
      let isProperty = false;
      while (MODIFIERS.has(text(at)) && (isWord(at + 1) || text(at + 1) === '{')) {
        hideToken(at);
        isProperty = true;
        at += 1;
      }
      if (text(at) === '...') at += 1;
      if (text(at) === 'this' && text(at + 1) === ':') {
        comma = hideAnnotation(at + 1);
        hideToken(at);
        continue;
      }
      if (isProperty) properties.push(text(at));
      at = tokens[at] && tokens[at].closed !== undefined ? tokens[at].closed + 1 : at + 1;
      if (text(at) === '?' && [':', ',', ')', '='].includes(text(at + 1))) {
        hideToken(at);
        at += 1;
      }
      hideAnnotation(at);
    }
    // Only now: commas tell where the next one begins.
    if (text(comma) === ',') hideToken(comma);
    return properties;
  }

  // Parameters, what they give, and whether a body follows. Gives the token after.
  function signature(opening) {
    const properties = parameters(opening);
    if (tokens[opening].closed === undefined) return { next: opening + 1, hasBody: true };
    const next = hideAnnotation(tokens[opening].closed + 1);
    if (text(next) !== '{') return { next, hasBody: false };
    kinds.set(next, 'block');
    if (properties.length) setProperties(next, properties);
    return { next, hasBody: true };
  }

  function setProperties(body, names) {
    let place = tokens[body].end;
    for (let at = body + 1; at < tokens[body].closed; at += 1) {
      if (text(at) === 'super' && text(at + 1) === '(' && tokens[at].depth === tokens[body].depth + 1) {
        place = tokens[tokens[at + 1].closed].end;
        break;
      }
    }
    insertions.push({ place, text: `;${names.map((name) => ` this.${name} = ${name};`).join('')}` });
  }

  function variables(index) {
    const { depth } = tokens[index];
    let at = index + 1;
    while (at < tokens.length) {
      at = tokens[at].closed !== undefined ? tokens[at].closed + 1 : at + 1;
      if (text(at) === '!' && text(at + 1) === ':') {
        hideToken(at);
        at += 1;
      }
      at = hideAnnotation(at);
      while (at < tokens.length && !(tokens[at].depth === depth && [',', ';'].includes(text(at)))) {
        if (tokens[at].depth < depth || (tokens[at].depth === depth && tokens[at].newline && canEnd(tokens[at - 1]))) return;
        at += 1;
      }
      if (text(at) !== ',') return;
      at += 1;
    }
  }

  function aFunction(index) {
    let at = index + 1;
    if (text(at) === '*') at += 1;
    if (isWord(at)) at += 1;
    at = hideParameters(at);
    if (text(at) !== '(') return;
    const { next, hasBody } = signature(at);
    const from = text(index - 1) === 'async' ? index - 1 : index;
    if (!hasBody) hideStatement(from, next);
  }

  function aClass(index) {
    let at = index + 1;
    if (isWord(at) && !['extends', 'implements'].includes(text(at))) at += 1;
    at = hideParameters(at);
    if (text(at) === 'extends') {
      at += 1;
      while (at < tokens.length && !['{', 'implements'].includes(text(at))) {
        const args = text(at) === '<' ? hideRead(at, typeArguments) : at;
        if (args > at) at = args;
        else at = tokens[at].closed !== undefined ? tokens[at].closed + 1 : at + 1;
      }
    }
    if (text(at) === 'implements') {
      let end = type(tokens[at].end);
      while (end >= 0 && code[skip(end)] === ',') end = type(skip(end) + 1);
      if (end < 0) return;
      hide(tokens[at].start, end);
      at = tokenFrom(end);
    }
    if (text(at) === '{') kinds.set(at, 'class');
  }

  function aMember(index) {
    let at = index;
    let isType = false;
    const isModified = (next) => tokens[next] && (isWord(next) || ['[', '*', '{'].includes(text(next)) || tokens[next].kind === 'string');
    while ((MODIFIERS.has(text(at)) || OTHER_MODIFIERS.has(text(at))) && isModified(at + 1)) {
      if (text(at) === 'static' && text(at + 1) === '{') {
        kinds.set(at + 1, 'block');
        return;
      }
      isType = isType || ['abstract', 'declare'].includes(text(at));
      if (MODIFIERS.has(text(at))) hideToken(at);
      at += 1;
    }
    if (text(at) === '*') at += 1;
    const isIndex = text(at) === '[' && isWord(at + 1) && text(at + 2) === ':';
    const isPrivate = text(at).startsWith('#');
    at = text(at) === '[' && tokens[at].closed !== undefined ? tokens[at].closed + 1 : at + 1;
    if (['?', '!'].includes(text(at)) && [':', '(', ';', '=', '}', '<'].includes(text(at + 1))) {
      hideToken(at);
      at += 1;
    }
    at = hideParameters(at);
    if (text(at) === '(') {
      const { next, hasBody } = signature(at);
      if (!hasBody || isType) hideStatement(index, next);
      return;
    }
    const next = hideAnnotation(at);
    const isOnlyType = isIndex || isType || (next > at && text(next) !== '=' && !isPrivate);
    if (isOnlyType) hideStatement(index, next);
  }

  function anEnum(first, index) {
    const name = text(index + 1);
    const opening = index + 2;
    if (text(opening) !== '{' || tokens[opening].closed === undefined) return;
    const end = tokens[opening].closed;
    let made = `var ${name} = (($) => { let $v = -1;`;
    for (const member of elements(opening)) {
      if (member >= end) break;
      const key = isWord(member) ? JSON.stringify(text(member)) : text(member);
      let last = member;
      while (last < end && !(tokens[last].depth === tokens[member].depth && text(last) === ',')) last += 1;
      const value = text(member + 1) === '=' ? code.slice(tokens[member + 1].end, tokens[last].start) : ' $v + 1';
      made += ` $[${key}] = $v =${value.replace(/\/\/.*/g, '').replace(/\s+/g, ' ')};`;
      made += ` if (typeof $v === 'number') $[$v] = ${key};`;
      if (isWord(member)) made += ` const ${text(member)} = $v;`;
    }
    made += ' return $; })({});';
    insertions.push({ place: tokens[first].start, text: made });
    hide(tokens[first].start, tokens[end].end);
    fresh = true;
  }

  function anInterface(from, index) {
    let at = hideParameters(index + 2);
    if (text(at) === 'extends') {
      let end = type(tokens[at].end);
      while (end >= 0 && code[skip(end)] === ',') end = type(skip(end) + 1);
      at = tokenFrom(end);
    }
    if (text(at) === '{' && tokens[at].closed !== undefined) hideStatement(from, tokens[at].closed + 1);
  }

  function aTypeName(from, index) {
    const at = hideParameters(index + 2);
    const end = text(at) === '=' ? type(tokens[at].end) : -1;
    if (end < 0) return;
    hide(tokens[from].start, end);
    hideStatement(from, tokenFrom(end));
  }

  function aDeclaration(from, index) {
    const { depth } = tokens[index];
    let at = index + 1;
    const hasBody = WITH_BODY.has(text(at));
    for (at += 1; at < tokens.length && tokens[at].depth >= depth; at += 1) {
      if (tokens[at].depth > depth) continue;
      if (text(at) === ';') break;
      if (hasBody && text(at) === '}') {
        at += 1;
        break;
      }
      if (!hasBody && tokens[at].newline && canEnd(tokens[at - 1])) break;
    }
    hideStatement(from, at);
  }

  // Imports and exports of types; the others are left, with the names that are types taken out.
  function anImport(index) {
    let end = index + 1;
    while (tokens[end] && tokens[end].kind !== 'string' && text(end) !== ';') end += 1;
    const isOfTypes = text(index + 1) === 'type' && (isWord(index + 2) || ['{', '*'].includes(text(index + 2)));
    if (isOfTypes && !(text(index + 2) === 'from' && text(index + 3) !== 'from')) return hideStatement(index, end + 1);
    if (!tokens[end] || tokens[end].kind !== 'string') return undefined;
    for (let at = index + 1; at < end; at += 1) {
      if (text(at) !== 'type' || !isWord(at + 1) || text(at + 1) === 'as' || !['{', ','].includes(text(at - 1))) continue;
      let last = at;
      while (last < end && ![',', '}'].includes(text(last))) last += 1;
      hide(tokens[at].start, text(last) === ',' ? tokens[last].end : tokens[last].start);
    }
    return end;
  }

  // A statement that begins with a word; gives the token to go on from, where that is not the next.
  function statement(index) {
    let at = index;
    const exported = text(at + 1) === 'const' ? text(at + 2) : text(at + 1);
    if (text(at) === 'export' && ['type', 'interface', 'declare', 'enum'].includes(exported)) at += 1;
    const next = at + 1;
    const isNamed = isWord(next) && !tokens[next].newline;
    if (text(at) === 'interface' && isNamed) anInterface(index, at);
    else if (text(at) === 'type' && isNamed) aTypeName(index, at);
    else if (text(at) === 'declare' && isNamed && DECLARED.has(text(next))) aDeclaration(index, at);
    else if (text(at) === 'abstract' && text(next) === 'class') hideToken(at);
    else if (text(at) === 'enum' && isNamed) anEnum(index, at);
    else if (text(at) === 'const' && text(next) === 'enum') anEnum(index, next);
    else if (text(at) === 'import' && !['(', '.'].includes(text(next))) return anImport(at);
    return undefined;
  }

  function aWord(index) {
    const token = tokens[index];
    const top = stack[stack.length - 1];
    const isProperty = before && ['.', '?.'].includes(before.text);
    if (isProperty) return undefined;
    if (['as', 'satisfies'].includes(token.text) && canEnd(before) && !token.newline) {
      const end = type(token.end);
      if (end >= 0) {
        hide(token.start, end);
        return undefined;
      }
    }
    const begins = fresh || !before || [';', '}'].includes(before.text) || (token.newline && canEnd(before));
    if (top.kind === 'class' && (begins || before === tokens[top.index])) {
      aMember(index);
      return undefined;
    }
    if (top.kind === 'block' && (begins || before === tokens[top.index] || before.text === ')')) {
      const end = statement(index);
      if (end !== undefined || hidden[token.start]) return end;
    }
    const isKey = top.kind === 'object' && [':', '(', ',', '}'].includes(text(index + 1)) && ['{', ','].includes(before.text);
    if (isKey) return undefined;
    if (['const', 'let', 'var'].includes(token.text) && (isWord(index + 1) || ['{', '['].includes(text(index + 1)))) variables(index);
    else if (token.text === 'function') aFunction(index);
    else if (token.text === 'class') aClass(index);
    else if (token.text === 'catch' && text(index + 1) === '(') parameters(index + 1);
    return undefined;
  }

  function anAngle(index) {
    const token = tokens[index];
    if (canEnd(before)) {
      const end = typeArguments(token.start);
      const follows = end < 0 ? '' : code[skip(end)] || ';';
      const isMade = index > 1 && text(index - 2) === 'new';
      if (end >= 0 && (['(', '`'].includes(follows) || (isMade && [';', ')', ',', '.'].includes(follows)))) hide(token.start, end);
      return;
    }
    const end = Math.max(typeParameters(token.start), typeArguments(token.start));
    if (end >= 0) hide(token.start, end);
  }

  function aParenthesis(index) {
    const token = tokens[index];
    if (seen.has(index) || token.closed === undefined) return;
    const top = stack[stack.length - 1];
    const after = token.closed + 1;
    const isArrow = (at) => text(at) === '=>';
    if (isArrow(after)) {
      parameters(index);
      return;
    }
    const isMethod = top.kind === 'object' && before && (before.kind !== 'sign' || before.text === ']');
    // Between `?` and `:` stands a value, unless its types tell otherwise.
    const isTyped = isWord(index + 1) && /^\??:$/.test(text(index + 2) + (text(index + 2) === '?' ? text(index + 3) : ''));
    const given = text(after) === ':' && (!top.questions || isTyped) ? type(tokens[after].end) : -1;
    if (given >= 0 && (isArrow(tokenFrom(given)) || (isMethod && text(tokenFrom(given)) === '{'))) {
      parameters(index);
      hide(tokens[after].start, given);
      kinds.set(tokenFrom(given), 'block');
    } else if (isMethod && text(after) === '{' && !CONTROL_WORDS.has(before.text)) {
      parameters(index);
    }
  }

  function kindOf(index) {
    if (kinds.has(index)) return kinds.get(index);
    const top = stack[stack.length - 1];
    if (tokens[index].text !== '{') return 'brackets';
    if (!before || fresh || [')', '=>', ';', '}', 'else', 'do', 'try', 'finally'].includes(before.text)) return 'block';
    if (before === tokens[top.index] || before.text === ':') return top.kind === 'block' ? 'block' : 'object';
    return tokens[index].newline && canEnd(before) && top.kind === 'block' ? 'block' : 'object';
  }

  function aSign(index) {
    const token = tokens[index];
    const top = stack[stack.length - 1];
    if (token.text === '<') anAngle(index);
    else if (token.text === '(') aParenthesis(index);
    else if (token.text === '[' && top.kind === 'class' && (fresh || !canEnd(before) || token.newline)) {
      if (before.text !== '=') aMember(index);
    } else if (/^!(?!=)/.test(token.text) && canEnd(before) && before.end === token.start) {
      const opener = before.text === ')' && before.opened !== undefined ? text(before.opened - 1) : '';
      if (!CONTROL_WORDS.has(opener)) hide(token.start, token.start + 1);
    }
    if (hidden[token.start]) return;
    if (token.text === '?') top.questions += 1;
    else if (token.text === ':' && top.questions) top.questions -= 1;
    else if ([';', ','].includes(token.text)) top.questions = 0;
    if (token.closed !== undefined) stack.push({ kind: kindOf(index), index, questions: 0 });
    else if (token.opened !== undefined && stack.length > 1) stack.pop();
  }

  for (let index = 0; index < tokens.length; index += 1) {
    const token = tokens[index];
    if (hidden[token.start]) continue;
    if (token.kind === 'word' || (['string', 'number'].includes(token.kind) && stack[stack.length - 1].kind === 'class')) {
      const end = aWord(index);
      if (end !== undefined) {
        before = tokens[end];
        index = end;
        continue;
      }
    } else if (token.kind === 'sign') {
      aSign(index);
    }
    if (hidden[token.start] && hidden[token.end - 1]) continue;
    before = token;
    fresh = false;
  }
  return written(code, hidden, insertions);
}

function written(code, hidden, insertions) {
  let result = '';
  const waiting = [...insertions].sort((one, other) => one.place - other.place);
  for (let at = 0; at <= code.length; at += 1) {
    while (waiting.length && waiting[0].place === at) result += waiting.shift().text;
    if (at < code.length) result += hidden[at] && code[at] !== '\n' ? ' ' : code[at];
  }
  return result;
}

return { strip };
