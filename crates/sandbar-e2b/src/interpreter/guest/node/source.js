// From the text of a cell to a script that can be run after others in the same global scope.
//
// `const`, `let` and `class` at the top become `var`, so that a later cell may declare the name again. Code that awaits
// runs in an async function whose variables are bound to properties of the global object, so that later cells see
// them, and changes of them, too. There is no parser of JavaScript to be had here; tokens are enough, and every guess
// made from them is checked by compiling.

const { CONTROL_WORDS, canEnd, isStart, scan } = load('tokens');

const STATEMENT_WORDS = new Set(
  'if for while do switch try throw return const let var function class import export break continue debugger'.split(' '),
);

// Whether a token stands in the body of a function.
function inFunction(tokens, index) {
  for (let outer = index - 1; outer >= 0; outer -= 1) {
    const token = tokens[outer];
    if (token.text !== '{' || token.closed === undefined || token.closed < index) continue;
    const before = tokens[outer - 1];
    if (before && before.text === '=>') return true;
    if (before && before.text === ')' && before.opened !== undefined) {
      let name = tokens[before.opened - 1];
      if (name && name.text === 'await') name = tokens[before.opened - 2];
      if (name && name.kind === 'word' && !CONTROL_WORDS.has(name.text)) return true;
      if (name && name.text === '*') return true;
    }
  }
  return false;
}

// The names a declaration binds, from the token after its keyword on.
function boundNames(tokens, index, depth) {
  const names = [];
  let at = index;
  for (;;) {
    const token = tokens[at];
    if (!token) break;
    if (token.kind === 'word') {
      names.push(token.text);
      at += 1;
    } else if (token.text === '{' || token.text === '[') {
      namesOfPattern(tokens, at, names);
      at = (token.closed === undefined ? tokens.length : token.closed) + 1;
    } else {
      break;
    }
    // To the comma before the next name, or to the end of the declaration.
    while (tokens[at] && !(tokens[at].depth === depth && [',', ';'].includes(tokens[at].text))) {
      if (tokens[at].depth < depth) return names;
      if (tokens[at].depth === depth && tokens[at].newline && isStart(tokens, at)) return names;
      at += 1;
    }
    if (!tokens[at] || tokens[at].text === ';') break;
    at += 1;
  }
  return names;
}

function namesOfPattern(tokens, opening, names) {
  const end = tokens[opening].closed === undefined ? tokens.length : tokens[opening].closed;
  const inside = tokens[opening].depth + 1;
  let isTarget = true;
  for (let at = opening + 1; at < end; at += 1) {
    const token = tokens[at];
    if (token.depth === inside && token.text === ',') isTarget = true;
    else if (token.depth === inside && token.text === '=') isTarget = false;
    else if (isTarget && token.depth === inside && (token.text === '{' || token.text === '[')) {
      // A key in brackets is followed by a colon, a pattern is not.
      const after = tokens[token.closed + 1];
      if (!(after && after.text === ':')) namesOfPattern(tokens, at, names);
      at = token.closed === undefined ? end : token.closed;
    } else if (isTarget && token.depth === inside && token.kind === 'word') {
      const after = tokens[at + 1];
      if (!(after && after.text === ':')) names.push(token.text);
    }
  }
}

// `import a, {b as c} from 'm'` as a declaration.
function importEdit(tokens, index) {
  let end = index + 1;
  while (tokens[end] && tokens[end].kind !== 'string') end += 1;
  if (!tokens[end]) return undefined;
  tokens[end].endsImport = true;
  const from = `await __sandbarImport(${tokens[end].text})`;
  const clause = tokens.slice(index + 1, end).filter((token) => token.text !== 'from' || token.depth > tokens[index].depth);
  const parts = [];
  const names = [];
  let whole;
  for (let at = 0; at < clause.length; at += 1) {
    if (clause[at].text === '*') {
      whole = clause[at + 2].text;
      at += 2;
    } else if (clause[at].kind === 'word' && clause[at].depth === tokens[index].depth) {
      parts.push(`default: ${clause[at].text}`);
      names.push(clause[at].text);
    } else if (clause[at].kind === 'word') {
      const renamed = clause[at + 1] && clause[at + 1].text === 'as';
      const name = renamed ? clause[at + 2].text : clause[at].text;
      parts.push(`${clause[at].text}: ${name}`);
      names.push(name);
      if (renamed) at += 2;
    }
  }
  let text = from;
  if (whole && parts.length) text = `var ${whole} = ${from}, {${parts.join(', ')}} = ${whole}`;
  else if (whole) text = `var ${whole} = ${from}`;
  else if (parts.length) text = `var {${parts.join(', ')}} = ${from}`;
  const last = tokens[end + 1] && tokens[end + 1].text === ';' ? tokens[end + 1].end : tokens[end].end;
  return { edit: { start: tokens[index].start, end: last, text: `;${text};` }, names: whole ? [whole, ...names] : names };
}

function apply(code, edits, start, end) {
  let text = '';
  let at = start;
  for (const edit of edits) {
    if (edit.start < start || edit.end > end) continue;
    text += code.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return text + code.slice(at, end);
}

// What to change in a cell, the names it declares at its top, and whether it has to be an async function.
function understand(code) {
  const tokens = scan(code);
  const edits = [];
  const names = [];
  let awaits = false;
  tokens.forEach((token, index) => {
    if (token.kind !== 'word') return;
    const before = tokens[index - 1];
    const after = tokens[index + 1];
    if (!after || (before && ['.', '?.'].includes(before.text)) || after.text === ':') return;
    if (token.text === 'import' && after.text === '(') {
      edits.push({ start: token.start, end: token.end, text: '__sandbarImport' });
    } else if (token.text === 'await' && !inFunction(tokens, index)) {
      awaits = true;
    }
    if (token.depth !== 0) return;
    if (['const', 'let', 'var'].includes(token.text) && (after.kind === 'word' || ['{', '['].includes(after.text))) {
      edits.push({ start: token.start, end: token.end, text: 'var'.padEnd(token.text.length) });
      names.push(...boundNames(tokens, index + 1, 0));
    } else if (token.text === 'class' && isStart(tokens, index) && after.kind === 'word') {
      edits.push({ start: token.start, end: token.end, text: `var ${after.text} = class` });
      names.push(after.text);
      const body = tokens.findIndex((other, at) => at > index && other.depth === 0 && other.text === '{');
      const end = body >= 0 ? tokens[body].closed : undefined;
      if (end !== undefined) edits.push({ start: tokens[end].end, end: tokens[end].end, text: ';' });
    } else if (token.text === 'function' && (isStart(tokens, index) || (before && before.text === 'async' && isStart(tokens, index - 1)))) {
      const name = after.text === '*' ? tokens[index + 2] : after;
      if (name && name.kind === 'word') names.push(name.text);
    } else if (token.text === 'import' && after.text !== '(' && after.text !== '.' && isStart(tokens, index)) {
      const found = importEdit(tokens, index);
      if (found) {
        awaits = true;
        edits.push(found.edit);
        names.push(...found.names);
      }
    }
  });
  edits.sort((one, other) => one.start - other.start);
  return { tokens, edits, names: [...new Set(names)], awaits };
}

function asyncText(head, names) {
  const bound = names.map((name) => `${name}: [() => ${name}, ($) => { ${name} = $; }]`);
  return `(async () => { __sandbarBind({${bound.join(', ')}}); ${head}\n})()`;
}

// The same with the value of the last expression as its result, when it ends with one.
function asyncTexts(code, { tokens, edits, names }, compiles) {
  let end = tokens.length;
  while (end > 0 && tokens[end - 1].text === ';') end -= 1;
  const until = end > 0 ? tokens[end - 1].end : 0;
  for (let index = end - 1; index >= 0; index -= 1) {
    const token = tokens[index];
    if (token.depth !== 0 || !isStart(tokens, index)) continue;
    const isStatement =
      token.text === '{' ||
      (token.kind === 'word' && STATEMENT_WORDS.has(token.text) && !(token.text === 'import' && tokens[index + 1].text === '(')) ||
      (token.text === 'async' && tokens[index + 1] && tokens[index + 1].text === 'function');
    if (isStatement) break;
    const head = apply(code, edits, 0, token.start);
    const text = asyncText(`${head}return (${apply(code, edits, token.start, until)}\n)`, names);
    if (compiles(text)) return text;
  }
  return asyncText(apply(code, edits, 0, code.length), names);
}

// The script of a cell and the names it declares. `compile` gives a script or throws a SyntaxError.
function prepare(code, compile) {
  const compiles = (text) => {
    try {
      compile(text);
      return true;
    } catch {
      return false;
    }
  };
  const understood = understand(code);
  const plain = apply(code, understood.edits, 0, code.length);
  if (understood.awaits) {
    const text = asyncTexts(code, understood, compiles);
    if (compiles(text) || !compiles(plain)) return { script: compile(text), names: [] };
  }
  // Braces at the beginning are most likely an object, as people mean it.
  if (/^\s*\{/.test(code) && /\}\s*$/.test(code) && compiles(`(${code.trim()})`)) {
    return { script: compile(`(${code.trim()})`), names: [] };
  }
  try {
    return { script: compile(plain), names: understood.names };
  } catch (error) {
    // What was written is to be shown, not what became of it.
    compile(code);
    throw error;
  }
}

return { prepare };
