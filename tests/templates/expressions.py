"""Short templates, each with a context: every filter, test, method and operator that we have, on
ordinary and odd values, and the statements with their corner cases.

What we refuse on purpose where jinja2 renders is left out: integers over 127 bits, complex numbers,
bytes (str.encode), lone surrogates, the template's own `self`, slices of constants with bounds that
are no integers, and what chat templates do not need (chat_template_unsupported_test.cc lists it).
Lines below that hold some of it among other things stay, and compare.py counts them apart."""

CONTEXT = {
    "s": "Hello World",
    "empty": "",
    "spaces": "  \t pad me \n\n",
    "lines": "one\ntwo\r\nthree\n\n  four\x0bfive\u2028six",
    "uni": "Grüße ΌΣΟΣ ﬁne ŉ İ 家族 👋🏽 ǆ ß",
    "digits": "42",
    "float_text": " 3.75e1 ",
    "html": "<a href=\"x\">'&'</a>",
    "csv": "a,b,,c",
    "n": 7,
    "neg": -13,
    "zero": 0,
    "big": 9007199254740993,
    "huge": 18446744073709551615,
    "f": 2.675,
    "g": -0.5,
    "tiny": 1e-07,
    "large": 1.5e300,
    "t": True,
    "fa": False,
    "nil": None,
    "nums": [3, 1, 2, 10, -5],
    "mixed": [1, "a", None, 2.5, True, [1], {"k": 1}],
    "words": ["banana", "Apple", "cherry", "apple"],
    "nested": [[1, 2], [3], []],
    "no_items": [],
    "d": {"b": 1, "A": "x", "c": [1, 2], "items": "shadow", "_hidden": 5, "nested": {"k": {"z": 1}}},
    "no_keys": {},
    "people": [
        {"name": "Bob", "age": 30, "tags": ["x"], "addr": {"city": "Ulm"}},
        {"name": "alice", "age": 25, "tags": [], "addr": {"city": "Bonn"}},
        {"name": "Carl", "age": 30, "addr": {"city": "ulm"}},
    ],
    "pairs": [["k", 1], ["l", 2]],
    "floats": [0.1, 0.2, 0.3, 1e16, 1e15, 123456789.125, 1e22, 5e-324],
    "quotes": ["it's", 'say "hi"', "both ' and \"", "back\\slash", "tab\t\x00\x7f\xad\u200b é"],
}

SUBJECTS = list(CONTEXT) + [
    "missing",
    "(1, 2, 3)",
    "()",
    "range(5)",
    "range(5, 0, -2)",
    "('<b>x & y</b>'|safe)",
    "d.items()",
    "d.keys()",
    "d.values()",
    "namespace(a=1, b='x')",
    "(nums|map('string'))",
    "'%s and %d'",
]

FILTERS = """
capitalize|count|d('dflt')|default('dflt', true)|default(boolean=true)
dictsort|dictsort(true)|dictsort(reverse=true)|e|escape
first|indent
indent(2, true)|indent('> ', blank=true)|indent(width=1, first=true, blank=true)|int|int(5)
join|join(', ')|join('-', attribute='name')|join(1)|last|length|list|lower|items|list
map('upper')|list|map('int', 7)|list|map(attribute='name')|list|map(attribute='addr.city')|list
map(attribute='tags', default='none')|list|map('nosuch')|list|map()|list|min|max
reject|list|reject('none')|list|rejectattr('tags')|list
rejectattr('age', 'equalto', 30)|list|replace('o', '0')|replace('l', 'L', 1)|replace('', '-')
safe
select|list|select('string')|list|select('gt', 1)|list|selectattr('age')|list|selectattr('name', 'in', ['Bob'])|list
selectattr('missing', 'defined')|list|sort|sort(true)
sort(reverse=true, case_sensitive=true)|sort(attribute='age')|sort(attribute='addr.city')
string|title|tojson|tojson(indent=2)|tojson(true)
tojson(separators=(',', ':'))|tojson(sort_keys=true)|tojson(indent='--')|tojson(ensure_ascii=true, indent=1)|trim
trim('H d')
unique|list|unique(true)|list|unique(attribute='age')|list|upper
nosuch
"""

TESTS = """
boolean|defined|divisibleby 3|divisibleby(2)|eq 7|equalto 'a'|even|false|float|ge 3|gt 'A'
greaterthan(1)|in [7, 'a', None]|in 'Hello World!'|in d|integer|iterable|le 7|lessthan 3|lt 'z'
mapping|ne 7|none|number|odd|sequence|string|true|undefined|nosuch
"""

STRING_METHODS = """
capitalize()
endswith('d')|endswith(('x', 'ld'))|endswith('')|endswith(1)
format()|format(1)
join(['a', 'b'])|join('xyz')|join([1])|join(nums|map('string'))|lower()
lstrip()|lstrip('He ')|replace('l', 'L')
replace('l', 'L', 2)|replace('', '-')|replace('', '-', 3)|replace('o', old='x')
rsplit()|rsplit('l', 1)|rstrip()|rstrip('d\\n')|split()|split(' ')
split('l')|split('l', 1)|split(none, 1)|split('')|split(maxsplit=0)|split(sep=',')|splitlines()|splitlines(true)|startswith('H')
startswith(['a'])|startswith(('a', 'H'))|strip()|strip('H d')|title()|upper()
nosuch()|__class__|_x|upper
"""

STRINGS = "s empty spaces lines uni digits html csv ('<b>x&y</b>'|safe) n".split()
OPERANDS = ["s", "empty", "n", "neg", "zero", "f", "t", "nil", "nums", "d", "missing", "(1, 2)", "no_items", "('<i>'|safe)", "huge"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]

SUBSCRIPTS = """
[0]|[-1]|[99]|[1:]|[:-1]|[::-1]|[::2]|[-3:-1]|[5:2]|[1:10:3]|[-1:-4:-1]|[::0]|[none:2]|[missing:]|[1.0]|[true]
['b']|['items']|['nosuch']|['nested']['k']['z']|.b|.items|.nosuch|.nested.k.z|.nosuch.more|._hidden|['_hidden']|.__class__
[none]|[[1]]|[(1, 2)]|[missing]|.name|[:100:]|[2:][0]|.get('b')|.get('nosuch')|.get('nosuch', 3)|.get([])|.keys()|.values()|list
.items()|list|.pop('b')|.update({})|.append(1)|.index(1)|.index(99)|.count(1)|.sort()|.clear|.setdefault
"""

FORMATS = ["'{}'.format(X)", "'{0}{0}'.format(X)", "'{x}'.format(x=X)", "'{{}}{}'.format(X)", "'{}{}'.format(X)"]

LOOSE = r"""
{{ 1 if false }}
{{ (1 if false) is undefined }}
{{ 1 if true else 2 if false else 3 }}
{{ 'a' 'b' "c" }}
{{ 'esc \n \t \x41 \u00e9 \101 \q \\ \' é \é' }}
{{ nums['x':] }}
{{ s.encode }}
{{ 1_000 + 0x_ff + 0b101 + 0o17 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 012 }}
{{ 100000000000000000000 }} {{ 2**62 }} {{ 2**100 }} {{ -2**2 }} {{ 2**-1 }} {{ 2**3**2 }}
{{ 7 // -2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7.5 // 2 }} {{ 7.5 % -2 }} {{ 1 / 3 }} {{ 4 / 2 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ not 1 == 2 }} {{ not not 0 }}
{{ none }} {{ None }} {{ true }} {{ True }} {{ [none, true, 1.0] }} {{ (1,) }} {{ () }} {{ {} }}
{{ {'a': 1, 'b': [1, {'c': none}]} }} {{ {1: 2, true: 3, 1.0: 4} }} {{ {(1, 2): 3}[(1, 2)] }} {{ {[]: 1} }}
{{ floats }} {{ quotes }} {{ 1e16 }} {{ 1e15 }} {{ 123456789012345678.0 }} {{ 0.1 + 0.2 }}
{{ 1.0 }} {{ 100.0 }} {{ 1e100 }} {{ -0.0 }} {{ 3.0 * 2 }} {{ 1e308 * 10 }}
{{ 'a' ~ 1 ~ none ~ 2.50 ~ [1] ~ missing }}
{{ missing }}|{{ missing.x }}
{{ missing + 1 }}
{{ missing() }}
{{ -missing }}
{{ missing == missing }} {{ missing == none }} {{ missing | length }} {{ missing|list }} {{ not missing }}
{{ d.nosuch }}|{{ d.nosuch is defined }}|{{ d.nosuch.x is defined }}
{{ nil.x }}|{{ nil['x'] }}|{{ nil[0] }}|{{ nil.x.y }}
{{ n.x }}|{{ s.nosuch }}|{{ nums.nosuch }}
{{ s[0] }}{{ s[-1] }}{{ s[99] }}{{ s['x'] }}{{ uni[0] }}{{ uni[-1] }}{{ uni[3:9] }}{{ uni[::-1] }}
{{ range(3) }} {{ range(1, 10, 3)|list }} {{ range(5)[1:3] }} {{ range(5)[-1] }} {{ range(100001) }}
{{ range(0) }} {{ range(3, 0)|list }} {{ range(1, 2, 0) }} {{ range('a') }} {{ 3 in range(5) }} {{ range(2.0) }}
{{ dict(a=1, b=2) }} {{ dict([('a', 1)], b=2) }} {{ dict({'x': 1}) }} {{ dict(1) }}
{{ dict.fromkeys(['a', 'b'], 0) }}
{{ namespace(a=1) }} {{ namespace({'x': 1}, y=2).x }} {{ namespace().x }} {{ namespace(_a=1) }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{% set _ = c.reset() %}{{ c.next() }}
{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}c
{{ raise_exception('stop') }}
{{ raise_exception() }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %A %a %B %b %j %U %W %w %y %I %p %f %%|%z|%Z|%c|%x|%X') }}
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%-d %e %F %T %D %R %h %C %G %u %V') }} {{ strftime_now('%') }}
{{ strftime_now(1) }}
{% for x in nums %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }},{% endfor %}
{% for x in nums %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in nums %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x // 4) }}{% endfor %}
{% for x in nums if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}none{% endfor %}
{% for x in nums if x > 100 %}{{ x }}{% else %}none{% endfor %}
{% for x in [] %}{{ x }}{% else %}{{ x }}none{% endfor %}
{% for x in missing %}x{% else %}nothing{% endfor %}
{% for x in nil %}x{% endfor %}
{% for x in 5 %}x{% endfor %}
{% for x in 'abc' %}{{ x }}-{{ loop.last }}{% endfor %}
{% for k in d %}{{ k }},{% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}
{% for k, v in d|items %}{{ k }}={{ v }}{{ loop.length }},{% endfor %}
{% for k, v in d|dictsort %}{{ k }}={{ v }},{% endfor %}
{% for a, b in pairs %}{{ a }}{{ b }}{% endfor %}{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for a, b in [(1,)] %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for x in nums %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in nums %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in [1] %}{% break %}{% else %}else{% endfor %}
{% for x in [1, 2] %}{% continue %}{% else %}else{% endfor %}
{% for x in [1, 2] %}{% if x == 1 %}{% continue %}{% endif %}{% else %}else{% endfor %}
{% break %}
{% macro m() %}{% break %}{% endmacro %}
{% for x in [1] %}{% set y %}{% break %}{% endset %}{% endfor %}ok
{% for x in [[1, [2, [3]]], 4] recursive %}{{ loop.depth }}{{ loop.depth0 }}{% if x is iterable %}[{{ loop(x) }}]{% else %}{{ x }}{% endif %}{% endfor %}
{% for x in [1] %}{{ loop([1]) }}{% endfor %}
{% for x in nums %}{% for y in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}
{% for loop in [1] %}{% endfor %}
{% for x in [1] %}{% set loop = 1 %}{% endfor %}
{% for x in nums %}{% set n = x %}{% endfor %}{{ n }}
{% for x in [1, 2] %}{{ v }}{% set v = x %}{{ v }}{% endfor %}{{ v }}
{% set v = 0 %}{% for x in [1, 2] %}{{ v }}{% set v = x %}{{ v }}{% endfor %}{{ v }}
{% set ns = namespace(t=0) %}{% for x in nums %}{% set ns.t = ns.t + x %}{% endfor %}{{ ns.t }}{{ ns }}
{% set d.x = 1 %}
{% set nosuch.x = 1 %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}
{% set ns = namespace() %}{% set ns.a, x = 1, 2 %}{{ ns.a }}{{ x }}
{% set x = 1, 2 %}{{ x }}{% set y = (1) %}{{ y }}
{% set x %}in <{{ n }}>{% endset %}{{ x }}{{ x is string }}{{ x is escaped }}
{% set x | upper | replace('A', 'o') %}banana{% endset %}{{ x }}
{% set true = 1 %}
{% set 1 = 1 %}
{% set x = 1 if false %}[{{ x }}]
{% macro m(a, b=2, c=a) %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=1) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a, a) %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body {{ n }}{% endcall %}
{% macro m() %}[{{ caller(1, 2) }}]{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro m(a) %}{{ a }}{% endmacro %}{% call m %}{% endcall %}
{% macro m() %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{% endmacro %}{{ m() }}{{ m }}
{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro m() %}{{ late }}{% endmacro %}{% set late = 3 %}{{ m() }}
{{ m() }}{% macro m() %}x{% endmacro %}
{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}
{% for x in [1] %}{{ n }}{% endfor %}{% set n = 1 %}
{% if s %}{{ n }}{% endif %}{% set n = 1 %}
{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% set n = 1 %}{{ m() }}
{% if false %}{% set n = 1 %}{% endif %}{{ n }}
{% for x in [1] %}{% if false %}{% set n = 1 %}{% endif %}{{ n }}{% endfor %}
{% for x in [1] %}{% set n = n + 1 %}{{ n }}{% endfor %}{{ n }}
{% with a = 1, b = n %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c }}
{% with n = 1, b = n %}{{ n }}{{ b }}{% endwith %}{{ n }}{% with %}x{% endwith %}
{% filter upper %}abc{{ s }}{% endfilter %}{% filter replace('a', 'b') | title %}a cat{% endfilter %}
{% filter length %}abc{% endfilter %}
{% block b %}in block{{ n }}{% endblock %}{% set z = 1 %}{% block c scoped %}{{ z }}{% endblock c %}
{% block b %}{% endblock %}{% block b %}{% endblock %}
{% generation %}gen{% set q = 1 %}{{ n }}{% endgeneration %}{{ q }}
{% for m in nums %}{% generation %}{{ m }}{{ loop.last }}{% endgeneration %}{% endfor %}
{% for m in nums %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{% raw %}{{ not }} {% parsed %}{% endraw %}|{%- raw -%}  x  {%- endraw -%}  |
{# comment #}a{#- strip -#} b {# {{ x }} #}c
{% print 1, 'x', n %}
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{% from 'x' import y %}
{% if false %}{% include 'x' %}{% endif %}ok
{% if false %}{{ x|nosuch }}{% endif %}ok
{{ (x|nosuch) if false else 'ok' }}
{% if true %}{% for x in [] %}{{ x|nosuch }}{% endfor %}{% endif %}
{{ x is nosuch }}
{% if n is nosuch %}{% endif %}
{% autoescape false %}{{ html }}{% endautoescape %}
{% nosuch %}
{% if %}{% endif %}
{% if n %}
{% endif %}
{% for x %}{% endfor %}
{{ }}
{{ n
{{ 'unclosed }}
{% set x = %}
{{ n | }}
{{ n is }}
{{ n is not }}
{{ 1 + }}
{{ (1, }}
{{ [1, 2 }}
{{ {'a' 1} }}
{{ f(1 2) }}
{{ dict(a=1, 2) }}
{{ dict(a=1, a=2) }}
{{ n.}}
{{ n is defined is defined }}
{{ n $ 1 }}
{{ a ! b }}
{{ nums | sum | string | length }}
{{ -n|abs }} {{ (-n)|abs }} {{ -n.real }} {{ not n|abs }} {{ n|abs + 1 }} {{ 2 * n|abs }}
{{ n is odd and n is not even }} {{ n is divisibleby 7 }} {{ n is not none }} {{ n is in [7] }} {{ 'a' is in 'abc' }}
{{ n is eq 7 }} {{ n is eq(7) }} {{ n is ge 7 and true }} {{ n is sameas n }} {{ nil is sameas none }} {{ 'x' is string and 1 }}
{{ s|upper|lower|title|capitalize }} {{ 'hello-world (foo) [bar] {baz} <qux> it\'s'|title }}
{{ ('<b>'|safe) + '<i>' }} {{ '<i>' + ('<b>'|safe) }} {{ ('<b>'|safe) ~ '<i>' }} {{ ('<b>%s'|safe) % '<i>' }} {{ ('<b>{}'|safe).format('<i>') }}
{{ ['<i>', '<b>'|safe]|join(',') }} {{ (','|safe).join(['<i>']) }} {{ ('a,b'|safe).split(',') }} {{ ('x'|safe).replace('x', '<') }} {{ [html|e] }}
{{ html|e|e }} {{ html|e|string|e }} {{ html|forceescape }} {{ (html|e)|replace('&', '+') }} {{ ('<'|safe) * 2 }} {{ ('a<b'|safe)[1] }} {{ ('<'|safe)|tojson }}
{{ nums|select|map('string')|join }} {{ people|map(attribute='name')|sort|join(',') }} {{ people|groupby('age') }}
{% for g, l in people|groupby('addr.city') %}{{ g }}{{ l|length }}{% endfor %}{% for g in people|groupby('age') %}{{ g.grouper }}{{ g.list|length }}{% endfor %}
{{ people|groupby('nosuch', default='x')|length }} {{ people|groupby('addr.city', case_sensitive=true)|map('first')|list }}
{% set it = nums|map('string') %}{{ it|list }}{{ it|list }}{{ it is iterable }}{{ it is sequence }}{{ 'yes' if [] |select else 'no' }}
{% set it = nums|select('odd') %}{% for x in it %}{{ x }}{{ loop.last }}{% break %}{% endfor %}{{ it|list }}
{{ (nums|map('string'))|length }}
{{ (nums|map('string'))[0] }}
{{ (nums|map('string'))|last }} 
{{ nums|reverse|list }} {{ s|reverse }} {{ d|reverse|list }} {{ d|first }} {{ d|last }} {{ d.keys()|last }} {{ d.items()|first }} {{ nums|reverse|first }}
{{ 'abc' in 'xabcx' }} {{ 1 in 'abc' }}
{{ 1 in nil }}
{{ 1 in missing }} {{ 'b' in d }} {{ 1 in d.values() }} {{ ('b', 1) in d.items() }} {{ [] in [[]] }} {{ true in [1] }}
{{ [] in d }}
{{ [1, 2] == [1, 2.0] }} {{ (1,) == [1] }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ 'a' == 1 }} {{ [1, 2] < [1, 3] }} {{ (1, 2) < (1,) }}
{{ [1] < (1,) }}
{{ {} < {} }}
{{ nums + [1] }} {{ (1,) + (2,) }} {{ [0] * 3 }} {{ 2 * 'ab' }} {{ 'ab' * -1 }} {{ [1] * 0 }}
{{ nums + (1,) }}
{{ 's' + 1 }}
{{ 1 + 's' }}
{{ [1] + none }}
{{ big + 1 }} {{ huge }} {{ huge + 1 }} {{ [huge]|tojson }} {{ huge|string|length }} {{ -huge }} {{ huge // 3 }} {{ huge / 2 }} {{ huge|float }}
{{ 10|round }} {{ 10.5|round }} {{ 11.5|round }} {{ 2.675|round(2) }} {{ 1234.5|round(-2) }} {{ 1250|round(-2) }} {{ -2.5|round|int }} {{ 2.1|round(0, 'ceil') }}
{{ '0x1f'|int(0, 16) }} {{ '0b11'|int(base=0) }} {{ ' 12 '|int }} {{ '1_000'|int }} {{ '12.9'|int }} {{ 'x'|int(-1) }} {{ '٣'|int }} {{ ''|int }} {{ '1e3'|int }} {{ 'inf'|int }} {{ [1]|int }} {{ 12.99|int }}
{{ 'nan'|float }} {{ '-inf'|float }} {{ '1_0.5'|float }} {{ 'abc'|float(2) }} {{ ''|float }} {{ '.5'|float }} {{ '5.'|float }} {{ '1e5'|float }} {{ '0x10'|float }}
{{ missing|int }}
{{ missing|float }}
{{ 1|tojson }}{{ 'a"\\/\b\f\n\r\t\x00\x1f\x7f é 😀 \u2028 <>&'|tojson }}{{ 'é😀\x7f'|tojson(ensure_ascii=true) }}
{{ {'a': [], 'b': {}, 'c': [1, {'d': 2}], 1: 2, none: 3, true: 4, 1.5: 5}|tojson(indent=2) }}
{{ {(1, 2): 3}|tojson }}
{{ [1, 2]|tojson(indent=0) }} {{ [1]|tojson(indent=-1) }} {{ [1, 2]|tojson(separators=(';', '=')) }} {{ {'b': 1, 'a': 2}|tojson(none, none, none, true) }}
{{ {'b': 1, 2: 2}|tojson(sort_keys=true) }}
{{ [1.0, 1e16, 1e-7, 1e22, 0.1, 'nan'|float, 'inf'|float]|tojson }} {{ (1, (2, 3))|tojson }} {{ ('<'|safe)|tojson }} {{ range(3)|tojson }}
{{ 'a b c d e f'|truncate(5) }} {{ 'abcdefghij'|truncate(9, true) }} {{ 'abc def ghi jkl'|truncate(10, leeway=0) }} {{ uni|truncate(8, true, '…', 0) }} {{ s|truncate(2) }}
{{ 'foo bar'|urlencode }} {{ 'a/b?c=d&é~'|urlencode }} {{ {'a b': 'c/d', 'e': 1}|urlencode }} {{ [('a', 'b&')]|urlencode }} {{ 5|urlencode }}
{{ {'class': 'x<y', 'id': none, 'n': 1, 'm': missing}|xmlattr }} {{ {'a b': 1}|xmlattr }}
{{ 'one two-three  four_five'|wordcount }} {{ uni|wordcount }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, false, true) }}|{{ ''|indent }}|{{ 'a\n'|indent }}|{{ 'a\r\nb\x0bc'|indent(1) }}
{{ 5|indent }}
{{ '%s %s'|format(1, 2) }} {{ '%(a)s'|format(a=1) }} {{ '%s'|format([1]) }} {{ '%s'|format(1, a=2) }}
{{ '%d%%'|format(5) }} {{ '%5d|%-5d|%05d'|format(1, 2, 3) }} {{ '%*d'|format(5, 1) }} {{ '%s'|format }}
{{ '{} {}'.format(1, 2) }} {{ '{1} {0}'.format(1, 2) }} {{ '{a[b]}'.format(a=d) }} {{ '{a.__class__}'.format(a=1) }} {{ '{'.format() }}
{{ '{} {0}'.format(1, 2) }}
{{ '}'.format() }}
{{ '{x}'.format_map({'x': 1}) }} {{ '{:>{w}}'.format('a', w=5) }} {{ '{0!r:>6}'.format('a') }} {{ '{0[x]}'.format({'x': [1]}) }}
{{ ''.join(['a', 'b']) }} {{ ', '.join(words) }} {{ ''.join(nums) }}
{{ 'abc'.upper().lower().title() }} {{ 'a-b'.split('-')[1] }} {{ 'x'.join('abc') }} {{ ('a' if t else 'b').upper() }}
{{ d.items()|list }} {{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ d['items'] }} {{ d.items }}
{{ nums|batch(2)|map('sum')|list }} {{ nums|slice(2)|map('list')|list }} {{ words|unique|list }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ mixed|sort }}
{{ words|min }} {{ words|max }} {{ []|min }} {{ []|first }}|{{ []|sum }} {{ ''|join }} {{ people|sum(attribute='age') }} {{ people|map(attribute='age')|max }}
{{ *nums }}
{{ range(*[1, 4])|list }} {{ dict(**{'a': 1}) }} {{ dict(**{'a': 1}, b=2) }} {{ dict(*[[('a', 1)]], **{'b': 2}) }} {{ range(*5) }}
{{ dict(**{1: 2}) }}
{{ lipsum is defined }} {{ range is callable }} {{ joiner is callable }} {{ dict is defined }} {{ namespace is callable }}
{{ loop }}|{{ caller is defined }}|{{ varargs is defined }}
{{ s.upper is callable }} {{ s.nosuch is callable }} {{ d.items is callable }} {{ 5 is callable }}
{{ uni.upper() }}|{{ uni.lower() }}|{{ uni.title() }}|{{ uni.swapcase() }}|{{ uni.casefold() }}|{{ uni.capitalize() }}|{{ 'ΑΣ ΑΣΑ Σ Α.Σ'.lower() }}
{{ '①²½٣'.isdigit() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ '½'.isnumeric() }}{{ '一'.isnumeric() }}{{ 'ª'.islower() }}{{ 'Ⅷ'.isupper() }}{{ 'ǅ'.istitle() }}{{ '\u00a0'.isspace() }}{{ 'é'.isalpha() }}{{ 'a1'.isalnum() }}
{{ 'abc'.strip('') }} {{ 'xxabcxx'.strip('x') }} {{ '\u3000a\u2003'.strip() }}| {{ 'ÄaÄ'.strip('Ä') }} {{ 'a'.center(4) }}|{{ 'ab'.center(5) }}|{{ 'a'.center(4, 'é') }}|{{ 'a'.center(4, 'ab') }}
{{ 'x' * 3000000000 }}
{{ ('a' * 1000)|length }} {{ 'é'.zfill(3) }} {{ '-5'.zfill(4) }} {{ '+5'.zfill(4) }} {{ 'a\tb'.expandtabs(4) }} {{ 'aXbX'.rsplit('X', 1) }}
{{ identifiant_é }} {% set é = 1 %}{{ é }}
{{ 5 . real }} {{ 5.real }}
{{ nums[0:2][1] }} {{ nums[1:][::-1] }} {{ (1, 2, 3)[1:] }} {{ nums[-100:100] }} {{ s[2:2] }} {{ uni[2:-2:2] }}
{{ d['nested']['k'].z }} {{ d.nested.k['z'] }} {{ d.get('nested', {}).get('k', {}).get('zz', 'deflt') }}
{{ true + true }} {{ true * 3 }} {{ -true }} {{ true // 2 }} {{ 1 is true }} {{ true is integer }} {{ true is number }} {{ 1.0 is integer }}
{{ none is none }} {{ missing is none }} {{ 0 is false }} {{ [] is sequence }} {{ {} is sequence }} {{ 'x' is sequence }} {{ {} is mapping }} {{ range(2) is sequence }}
{{ 'foo' is filter }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ [] is filter }}
"""

WHITESPACE = [
    "  {% if true %}\n  a\n  {% endif %}\nb\n",
    "x  {% if true %}  y  {% endif %}  z",
    "x  {%- if true -%}  y  {%- endif -%}  z",
    "x  {%+ if true +%}\n  y  {%+ endif +%}\n  z",
    "  {{ 1 }}  \n  {{- 2 -}}  \n  {{ 3 }}\n",
    "a\n  {#- c -#}\n  b\n  {# c #}\n  d\n  {#+ c +#}\n  e",
    "{% for x in [1, 2] %}\n  - {{ x }}\n{% endfor %}\nend\n\n",
    "{% for x in [1, 2] -%}\n  - {{ x }}\n{%- endfor %}\nend\n\n\n",
    "\n\n{% set x = 1 %}\n\n{{ x }}\n\n",
    "a\r\nb\r\n{% if true %}\r\nc\rd{% endif %}\r\n",
    "{% raw %}\n  {{ x }}\n{% endraw %}\nafter\n  {%- raw %} y {% endraw +%}\nz",
    "  {% raw %}  x\n  {% endraw %}  y",
    "\t{% if true %}\u00a0{% endif %}\u2003x {%- if true %}\u3000{%- endif %}",
    "{%if true%}a{%else%}b{%endif%}",
    "{%- if true -%}\n\n  a\n\n{%- else -%}\n b{%- endif -%}\n",
    "a {{ '\n' }} b\n{{ 'x\r\ny' }}",
    "{{ {'a': {'b': 1}} }}{{ {'a':{}}}}",
    "{% if true %}{# #}\n{% endif %}x\n{# a\nb #}\ny",
    "no newline\n",
    "two newlines\n\n",
    "{",
    "{%",
    "{{",
    "{#",
    "{# open",
    "{% raw %}",
    "{% endraw %}",
    "}} %} #}",
    "{{ 1 }",
    "{ { 1 } }",
    "{%%}",
    "{{ 1 -}}\n\n  x",
    "x\n\n  {{- 1 }}",
    "   {%- set x = 1 %}   {{ x }}",
    "text {% set x = 1 %}\n   {% set y = 2 %}  tail",
    "{{ 1 +}}",
    "{{+ 1 }}",
    "a{% if true -%} {% endif %}b",
]


def split_filters(text):
    """Filters are joined by '|', but some of them end in |list."""
    out = []
    for piece in text.replace("\n", "|").split("|"):
        if piece == "list" and out and out[-1] != "items" and not out[-1].endswith("list"):
            out[-1] += "|list"
        elif piece:
            out.append(piece)
    return out + ["list"]


def generated():
    for item in split_filters(FILTERS):
        for subject in SUBJECTS:
            # This would show the address of a generator.
            if "map(" not in subject or item != "replace('', '-')":
                yield f"{{{{ {subject}|{item} }}}}"
    for item in split_filters(TESTS):
        for subject in SUBJECTS:
            yield f"{{{{ {subject} is {item} }}}}"
    for item in split_filters(STRING_METHODS):
        for subject in STRINGS:
            yield f"{{{{ {subject}.{item} }}}}"
    for operator in OPERATORS:
        for left in OPERANDS:
            for right in OPERANDS:
                yield f"{{{{ {left} {operator} {right} }}}}"
    for item in split_filters(SUBSCRIPTS):
        for subject in SUBJECTS:
            yield f"{{{{ {subject}{item} }}}}"
    for expression in FORMATS:
        for subject in SUBJECTS:
            yield "{{ " + expression.replace("X", f"({subject})") + " }}"


def cases(every):
    """Sources and contexts: each `every`-th of the generated expressions and all written ones."""
    for number, source in enumerate(generated()):
        if number % every == 0:
            yield source, CONTEXT
    for source in LOOSE.strip("\n").split("\n") + WHITESPACE:
        yield source, CONTEXT
