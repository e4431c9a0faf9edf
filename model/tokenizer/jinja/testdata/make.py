"""Makes cases.json.gz: what jinja2, set up as the transformers library sets it up, makes of several thousand small templates.

    python make.py

Needs transformers==5.24.0 and jinja2==3.1.6. All templates were made for this test. A case is [source, result], with null where it is an
error. Left out are results that no template depends on: addresses, the printed form of iterators and views, ints beyond 64 bits.
"""

import gzip
import itertools
import json
import re
from pathlib import Path

from transformers.utils.chat_template_utils import _compile_jinja_template

VARS = dict(
    none=None, t=True, f=False, zero=0, one=1, seven=7, minus=-3, half=0.5, two_=2.0, big=1e17, tiny=1.5e-7, s="Hello World", e="",
    u="été 日本 😀 ß", q="it's \"so\"\n\t\\", nums=[3, 1, 2], words=["b", "A", "c", "a"], empty=[], d={"b": 1, "a": [1, None, True], "C": {"x": "y"}},
    noth={}, items_={"items": 5, "keys": "k"}, people=[{"name": "Bo", "age": 3, "tags": ["x"]}, {"name": "al", "age": 30}, {"name": "Cy", "age": 3, "tags": []}],
    nested={"type": "object", "properties": {"n": {"type": "integer", "description": "How many <b>&</b> ü"}}, "required": ["n"]},
)  # fmt: skip

VALUES = ["none", "t", "f", "zero", "one", "seven", "minus", "half", "two_", "s", "e", "u", "nums", "words", "empty", "d", "noth", "people", "nope", "(1, 'a')", "[]", "'7'", "' 12 '", "namespace(a=1)", "range(3)", "d.items()", "nums|map('string')"]  # fmt: skip
ITERATORS = ("range(3)", "d.items()", "nums|map('string')")
# These make text of a value first: of an iterator, that is an address or the like.
PRINTING = ("capitalize", "center", "format", "lower", "replace", "string", "title", "trim", "upper", "wordcount", "truncate")
FEW = ["none", "t", "zero", "seven", "half", "s", "e", "'a'", "nums", "d", "nope", "(1, 'a')", "[3]"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
FILTERS = """abs capitalize count length string lower upper title trim list first last reverse sort unique sum min max int float round tojson
items wordcount default dictsort join indent batch(2) slice(2) center(9) truncate(5) replace('l','L') map('upper') map(attribute='name')
select reject selectattr('age') rejectattr('tags') groupby('age') default('D') default('D',true) d(boolean=true) int(5) float(1.5)
int(base=16) round(1) round(1,'ceil') round(method='floor') tojson(indent=2) tojson(ensure_ascii=true) tojson(sort_keys=true)
tojson(separators=(',',':')) tojson(indent='\\t') tojson(none,1) join('-') join(', ',attribute='name') sort(reverse=true) sort(attribute='age') sort(attribute='age,name')
sort(case_sensitive=true) dictsort(by='value') dictsort(reverse=true) dictsort(true) unique(attribute='age') min(attribute='age') max(attribute='name')
sum(attribute='age') sum(start=1) map('int') map('default','x') map(attribute='tags',default='no') map(attribute='tags.0') map('replace','b','B')
select('string') select('odd') select('in',[1,2,'a']) select('==',1) selectattr('age','eq',3) selectattr('age','gt',3) selectattr('tags','defined') rejectattr('name','in',['al'])
groupby('tags',default='-') indent(2) indent(2,true) indent(first=true,blank=true) indent('> ') attr('name') attr('upper') batch(2,'-') slice(2,0)
truncate(6,true) truncate(6,end='') truncate(7,false,'!',0) trim('Hd') center format nosuchfilter first|upper list|length""".split()
TESTS = """defined undefined none boolean true false integer float number string mapping iterable sequence callable lower upper odd even
divisibleby(3) divisibleby(0) eq(7) ne(7) gt(1) lt(1) ge(7) le(7) equalto('') sameas(none) sameas(true) in([7,'Hello']) nosuchtest""".split()
TEXTS = ["s", "e", "u", "q", "'a,b,,c'", "'  x  '", "'-5'", "'12'", "'Aa Bb'", "'ab'*3", "'x\\ny\\r\\nz\\n'", "'ǅ'", "'ΑΣ ΑΣ.'", "'½²'"]
METHODS = """upper() lower() title() capitalize() swapcase() strip() lstrip() rstrip() strip('Hdx ') lstrip('H') rstrip('d') split() split(',') split(',',1)
split(maxsplit=1) split(none,1) split(sep=' ') rsplit() rsplit(' ',1) rsplit(',',1) rsplit(none,1) split('') splitlines() splitlines(true) startswith('H') startswith(('H','a')) startswith(['H'])
endswith('d') endswith(('z','d')) startswith('e',1) find('o') find('zz') find('o',5) rfind('o') index('o') index('zz') rindex('b') count('l') count('')
replace('l','L') replace('l','L',1) replace('','-') replace('a','b',-1) join(['x','y']) join('xy') join([1]) zfill(5) zfill(1) ljust(4) ljust(14,'.') rjust(14) center(14,'*') center(5)
partition(' ') rpartition(' ') partition('zz') rpartition('zz') partition('') removeprefix('He') removesuffix('ld') isalpha() isdigit() isdecimal() isnumeric() isalnum() isspace()
islower() isupper() istitle() isascii() format(1) nosuch() __class__ upper.x append(1)""".split()
OTHER_METHODS = {
    "d": "get('b') get('z') get('z',5) get(default=1) keys()|list values()|list items()|list keys()|length items()|tojson copy() pop('b') update({}) setdefault('a',1) nosuch() nosuch b a['0'] a.0 a[0] C.x['z'].y __class__ items items|length clear",
    "items_": "items items() keys keys() ['items'] ['keys'] values()|list",
    "nums": "count(1) index(2) index(9) copy() append(4) pop() sort() 0 [0] [-1] [5] [-5] ['x'] [true] [none] [1.0] x [:2] [::2] [::-1] [-2:] [5:] [:-1] [2:0:-1] [::0] ['a':]",
    "s": "[0] [-1] [99] ['x'] [:5] [-5:] [::-1] [::2] [3:1] [1:99:3] x 0",
    "u": "[0] [-1] [3:6] [::-1] [:4]",
    "(1, 'a')": "[0] [-1] count(1) index('a') [1:] x",
    "half": "is_integer() x",
    "none": "x [0] x.y ['x']",
    "nope": "x [0] () x.y ['x']",
    "one": "x [0] ()",
    "range(5)": "[0] [-1] [9] [1:3]|list count(1) index(2) x",
}
SNIPPETS = r"""
{{ 1 if t }}|{{ 1 if f }}|{{ 1 if f else 2 }}|{{ (1 if f) is defined }}
{{ 1 if f else 2 if f else 3 }}
{{ not t or f and nope.x }}
{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 3 > 2 in [2] }}
{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 + 3 * 4 ~ 5 + 6 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 1 / 3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }} {{ 10 ** 15 }}
{{ -1|abs }} {{ -s|length }} {{ 3 - -2 }} {{ +3 }} {{ 'a' 'b' "c" }} {{ 1_000 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1e3 }} {{ 1.5E-2 }} {{ 12_3.4 }}
{{ [1, 2,] }}{{ (1,) }}{{ () }}{{ {'a': 1,} }}{{ {} }}{{ [] }}{{ {1: 2, none: 3, true: 4} }}{{ {1.5: [('a', "b'c")]} }}
{{ 1, 2 }}{% set a, b = 1, [2] %}{{ a }}{{ b }}{% set (c, d2) = b + [3] %}{{ c ~ d2 }}{% set x, = [9] %}{{ x }}
{% set a, b = [1] %}
{% set a, b = [1, 2, 3] %}
{% set none = 1 %}
{{ 1e16 }} {{ 1e15 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456789.123 }} {{ big }} {{ tiny }} {{ 2.0 }} {{ -0.0 }} {{ 1e400 }} {{ 3.14|round(1) }} {{ 2.5|round }} {{ 0.5|round }} {{ 2.675|round(2) }} {{ 1234|round(1) }}
{{ q }}|{{ [q] }}|{{ ["it's", 'say "x"', "\x00\x7f\u00ad\u200b\u2028é"] }}|{{ ['😀', '\U0001F600', '\x41\101\0'] }}
{{ '\d \q' }} {{ 'a\
b' }}
{{ '\x4' }}

{{ "a" == 'a' }} {{ 1 == 1.0 }} {{ true == 1 }} {{ [1, 2] == [1.0, 2] }} {{ (1,) == [1] }} {{ {'a': 1} == {'a': true} }} {{ none == f }} {{ nope == nope2 }} {{ [1] < [1, 2] }} {{ 'a' < 'b' }} {{ [2] > [1, 5] }}
{{ 'a' in 'abc' }} {{ 'a' in d }} {{ [1] in d }} {{ 1 in nums }} {{ none in [none] }} {{ 'x' not in nope }} {{ nope in nums }}
{{ nope in 's' }}
{{ nope in d }}
{{ 1 in 'abc' }}
{{ nope }}{{ nope ~ 'x' }}{{ [nope] }}{{ nope|default('D') }}{{ nope|length }}{{ nope is iterable }}
{{ d.nope.x }}
{{ d.nope is defined }}{{ d.nope }}{{ d['nope'] is defined }}{{ (d.nope or 'x') }}
{{ nope() }}
{{ s() }}
{{ d.b() }}
{{ loop }}
{% for x in nums %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{{ loop.nope }} {% endfor %}
{% for x in nums if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.last }} {% else %}none{% endfor %}
{% for x in nums if x > 10 %}{{ x }}{% else %}none {{ x is defined }}{% endfor %}
{% for x in nope %}{{ x }}{% else %}empty{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% for k in d %}{{ k }}{% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in d|items %}{{ k }}{% endfor %}{% for k, v in d|dictsort %}{{ k }}{% endfor %}
{% for a, b in [[1, 2], (3, 4)] %}{{ a + b }} {% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a + b }} {% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for c in u %}[{{ c }}]{% endfor %}
{% for x in 1, 2, 3 %}{{ x }}{% endfor %}
{% for x in nums %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}{% for x in nums %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in nums %}{% for y in nums %}{% if y == 1 %}{% break %}{% endif %}{{ loop.index }}{{ y }}{% endfor %}|{{ loop.index }}{% endfor %}
{% for x in [] %}{% else %}{% for y in [1] %}{% break %}{% endfor %}E{% endfor %}
{% break %}
{% for n in [{'v': 1, 'c': [{'v': 2, 'c': [{'v': 3}]}, {'v': 4}]}] recursive %}{{ loop.depth0 }}{{ n.v }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}
{% for n in [1] %}{{ loop([2]) }}{% endfor %}
{% set x = 1 %}{% for i in nums %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}{% with %}{% set x = 3 %}{{ x }}{% endwith %}{{ x }}{% with x = 4, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}{{ y }}
{% if f %}{% set z = 1 %}{% endif %}{{ z }}{{ z is defined }}{% if f %}{% set s = 1 %}{% endif %}{{ s }}
{% set ns = namespace(n=0, l=[]) %}{% for i in nums %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.n }}{{ ns.l }}{{ ns }}{{ ns.nope }}{{ ns['n'] }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a + ns.b }}{% set ns.c = [ns.a] %}{{ ns.c }}{{ namespace([('k', 1)]).k }}
{% set ns = namespace() %}{% set ns._x = 1 %}
{{ namespace(_x=1) }}
{% set d.b = 1 %}
{% set nope.b = 1 %}
{% set ns = namespace(a=1) %}{% set ns.a, b = 5, 6 %}{{ ns.a }}{{ b }}
{% set x %}  a {{ one }} b{% endset %}[{{ x }}]{{ x|length }}{{ x is string }}{% set y | upper | trim %}  a {{ one }}{% set q = 1 %}{{ q }}{% endset %}[{{ y }}]{{ q }}
{% filter upper %}a{{ 'b' }}{% endfilter %}{% filter replace('a', 'o')|upper %}banana{% endfilter %}{% filter indent(2) %}x
y{% endfilter %}
{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(a=1, c=5) }}|{{ m() }}|{{ m(*[7, 8]) }}|{{ m(**{'a': 1, 'b': 0}) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 'x', k=2) }}{{ m() }}
{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(4) }}
{% macro m() %}{{ caller() }}!{{ caller is defined }}{% endmacro %}{% call m() %}hi {{ one }}{% endcall %}
{% macro m() %}{% for i in nums %}<{{ caller(i, k=2) }}>{% endfor %}{% endmacro %}{% call(x, k=1) m() %}{{ x }}{{ k }}{% endcall %}
{% macro m() %}{{ caller is defined }}{% if caller %}x{% endif %}{% endmacro %}{{ m() }}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{{ m2() }}{% macro m2() %}x{% endmacro %}
{% macro outer() %}{{ inner() }}{% endmacro %}{% macro inner() %}in{{ x }}{% endmacro %}{% set x = 5 %}{{ outer() }}
{% set x = 1 %}{% macro m() %}{{ x }}{% set x = 9 %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}{{ x }}
{% for i in nums %}{% macro m() %}{{ i }}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m(a) -%}   {{ a }}   {%- endmacro %}[{{ m('x') }}][{{ m('x')|length }}]{{ m('a') ~ m('b') }}{{ m('a') == 'a' }}
{% macro m() %}{{ nope2 }}{% endmacro %}{% with nope2 = 1 %}{{ m() }}{% endwith %}
{% generation %}a{% set gx = 1 %}{{ gx }}{% endgeneration %}{{ gx }}{%- generation -%} b {%- endgeneration -%} c
{{ raise_exception('x') }}
{{ strftime_now }}
{{ strftime_now(1) }}
{{ dict(a=1, b=2) }}{{ dict([('x', 1)]) }}{{ dict({'a': 1}, a=2) }}{{ range(2, 8, 3)|list }}{{ range(5, 0, -2)|list }}{{ range(0)|list }}{{ range(3)|length }}{{ range(3)[1] }}{{ 2 in range(3) }}
{{ range() }}
{{ range(1, 2, 0) }}
{{ range(1000000)|list }}
{{ range('a') }}
{{ cycler('a') }}
{{ nums|map('nosuch')|list }}
{{ nums|select('nosuch')|list }}
{% if f %}{{ 1|nosuch }}{% endif %}
{% do x %}
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{% if t %}x{% endfor %}
{% if t %}x
{% endif %}
{{ 1 + }}
{{ 1 1 }}
{{ }}
{{ (1 }}
{{ 'a }}
{{ a.1b }}
{{ 1 is }}
{{ s|upper|lower|title }}{{ s|replace('o', '0')|length + 1 }}{{ (s|upper)[:3] }}{{ s.split()|last|first }}{{ s[:5]|upper ~ '!' }}
{{ [1, [2, [3]]]|tojson }}{{ {'a': (1, 2), 'b': none, 'c': 1.0, 'd': '\u2028<>&\'"\\/\x01\x7f'}|tojson }}{{ nested|tojson(indent=4) }}{{ []|tojson(indent=2) }}{{ {}|tojson(indent=2) }}{{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}
{{ nested|tojson(indent=0) }}{{ [[], {}]|tojson(indent=1) }}{{ d|tojson(sort_keys=true, indent=2) }}{{ 'é😀'|tojson(true) }}{{ nums|map('string')|tojson }}
{{ nope|tojson }}
{{ d.items()|tojson }}
{{ nums|map('string')|length }}
{{ (nums|map('string'))[0] }}
{% set g = nums|map('string') %}{{ g|list }}{{ g|list }}{{ nums|reverse|list }}{{ s|reverse }}{{ d|reverse|list }}{{ (nums|reverse)|first }}
{% set g = nums|select %}{{ g|first }}{{ g|list }}{{ g|first is defined }}
{{ nums|map('string')|last }}
{{ people|map(attribute='name')|join(', ') }}{{ people|selectattr('age', 'equalto', 3)|map(attribute='name')|list }}{{ people|sort(attribute='name')|map(attribute='name')|list }}{{ people|groupby('age')|map('last')|map('length')|list }}{% for g in people|groupby('age') %}{{ g.0 }}{{ g[1]|length }}{% endfor %}
{% for g in people|groupby('age') %}{{ g.grouper }}{{ g.list|length }}{% endfor %}{% for a, l in people|groupby('age') %}{{ a }}{{ l|length }}{% endfor %}
{{ '%s is %d and %.2f, %5s|%-5s|%05d %x %r %%' % ('a', 3, 2.5, 'b', 'c', 42, 255, 'q') }}{{ '%s' % 5 }}{{ '%s' % [1] }}{{ '%d' % 3.7 }}{{ '%s-%s'|format(1, 2) }}
{{ '%s %s' % 1 }}
{{ '%d' % 'a' }}
{{ '%s' % (1, 2) }}
{{ '{} {} {{}} {0}'.format(1, 2) }}
{{ '{} {} {{}}'.format(1, 'x') }}{{ '{1}{0}{a}'.format(1, 2, a=3) }}
{{ '{'.format() }}
{{ '{}'.format() }}
{{ 'a' is sameas 'a' }}{{ 1 is not none }}{{ not 1 is none }}{{ 4 is divisibleby 2 }}{{ 'A' is upper and 'a' is lower }}{{ 3 is odd }}{{ 7 is in [7] }}{{ 'upper' is filter }}{{ 'odd' is test }}{{ 'zz' is filter }}{{ s is string and s is not mapping }}{{ 1 is number if t else 2 }}{{ nums is sequence }}{{ x is not defined or x }}
{{ 1 is none is none }}
{{ 'abc'|first }}{{ 'abc'|last }}{{ []|first }}{{ []|last is defined }}{{ ''|first }}{{ d|first }}{{ d|last }}{{ nums|sum }}{{ [[1], [2]]|sum(start=[]) }}{{ ['a', 'b']|sum(start='') }}
{{ nums|max }}{{ nums|min }}{{ []|max }}{{ ['b', 'A']|min }}{{ ['b', 'A']|min(case_sensitive=true) }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb\n\nc\n'|indent(2, blank=true) }}|{{ 'a\r\nb\x0bc'|indent(1) }}|{{ ''|indent }}|{{ '\n'|indent }}
{{ 'the quick brown fox'|truncate(10) }}{{ 'the quick brown fox'|truncate(10, true) }}{{ 'the quick brown fox'|truncate(15, leeway=0) }}{{ 'abc'|truncate(2) }}
{{ "hello-world (foo) [bar] {x} <y> it's élan"|title }}{{ "hello-world it's élan 3rd"|capitalize }}{{ "hello-world it's élan 3rd".title() }}{{ 'a_b c, d-e été'|wordcount }}
{{ '12'|int + '0x1f'|int(base=16) + '1.9'|int + 'x'|int + 'x'|int(5) + none|int(3) + 2.9|int + true|int }}{{ ' 3 '|int }}{{ '1_0'|int }}{{ '1e3'|int }}{{ 'inf'|float }}{{ 'nan'|int(4) }}{{ '-2.5'|float }}{{ '٣'|int }}
{{ nope|int }}
{{ nope|float }}
{{ nums|batch(2)|list }}{{ range(7)|slice(3)|list }}{{ range(7)|slice(3, 'x')|list }}{{ range(5)|batch(2, 0)|list }}
{{ 'x' * 3 }}{{ 3 * 'x' }}{{ [1] * 2 }}{{ 'x' * -1 }}{{ 'x' * true }}{{ (1,) * 2 }}
{{ [1] + [2] }}{{ (1,) + (2,) }}{{ 'a' + 'b' }}{{ 1 + 1.5 }}{{ true + true }}
{{ 'a' + 1 }}
{{ 'a' + none }}
{{ 'a' + nope }}
{{ [1] + (2,) }}
{{ nums + 'a' }}
{{ none + 'a' }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ {} < {} }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ {[1]: 2} }}
{{ {'a': 1}[[1]] }}
{{ d[nope] }}{{ d.get(nope) }}{{ d.get(nope, 1) }}
{{ nums['a'] }}{{ nums[none] }}{{ s[nope] }}{{ nums[0.0] }}
{{ nums[0][0] }}{{ one[0] is defined }}
{{ nums.append(1) }}
{{ d.update(a=1) }}
{{ nums.append }}
{{ d.__class__ }}{{ ''.__class__ }}
{{ ''.__class__.__mro__ }}
{{ nums.__len__() }}
{{ s.nope() }}
{{ s|attr('upper') is callable }}{{ d|attr('a') }}{{ d|attr('a') is defined }}
{{ [none, true, 1.0, 'x', [1], {'k': (1,)}, nope] }}{{ {'a': none} ~ '' }}{{ (none,) ~ [] }}
{{ none|string ~ true|string ~ 1|string ~ nums|string }}{{ none|upper }}{{ 1|trim }}{{ nums|replace('1', 'x') }}{{ none|length }}
{{ none|default('x') }}{{ none|default('x', true) }}{{ ''|default('x', true) }}{{ d.nope|default }}{{ d.nope.y|default('x') }}
{{ (d.a)[0] }}{{ d.a.0 }}{{ d['a'][2] }}{{ d.C.x }}{{ d.C['x'][0] }}{{ [d, nums][1][0] }}{{ {'a': {'b': [1, 2]}}.a.b[1] }}{{ 'abc'[1] }}{{ 'abc'.upper()[0].lower() }}
{{ s.split(' ')[-1].lower().replace('w', 'W') }}{{ ','.join(words|sort) }}{{ ', '.join(d.keys()) }}{{ ''.join(s|reverse) }}{{ words|join }}{{ words|sort|join(',') }}{{ [1, none, 'a']|join('-') }}{{ d|join }}{{ s|join('.') }}
{#- c -#}  x  {#+ c #}
{# a # } #}y{{ '{# no #}' }}{{ "{{ no }}" }}{{ '%}' }}
  {% raw %} {{ x }} {% if %} {% endraw %}
  {%- raw -%}  {{ x }}  {%- endraw -%}  z
{% raw %}
a
{% endraw %}
b
a
  {% if t %}
  b
    {%- if t %} c{% endif %}

  {%+ if t %} d {% endif +%}
 e
  {{ one }}
  {{- one -}}  
  f {{+ one }}

  {% if t -%}
    g
  {%- endif %}  
	{% set x = 1 %}	
  h   {# c #}
  {# c #}
i
{% if t %}{% endif %}

{% if t %}
{% endif %}

j
a {%- if t -%} b {% endif -%} c
x
 {{ s }} 
 {%- for i in nums %}
  {{ i }}
 {%- endfor %}


{%for i in nums%}{{i}}{%endfor%}{%-if t-%}x{%-endif-%}{{one}}{{-one-}}
{% if nope is defined and nope %}a{% elif s|length > 3 %}b{% else %}c{% endif %}{% if not nope %}d{% endif %}{% if empty %}{% elif noth %}{% else %}e{% endif %}
{% if 1, 2 %}x{% endif %}{% if 'a' == 'a' == 'a' %}y{% endif %}{% if (1 if f) %}{% else %}z{% endif %}
{% set messages = [{'role': 'user', 'content': 'x'}] %}{% for m in messages[1:] %}{{ m }}{% endfor %}{{ messages[0]['role'] }}{{ messages[-1].content }}{{ messages[5].x is defined }}
{% set a = {'x': 1} %}{% set b = dict(a, y=2) %}{{ b }}{{ a }}{{ dict(a.items(), z=3) }}{% for k, v in b.items() if k != 'x' %}{{ k }}{% endfor %}
{{ lipsum is defined }}{{ joiner is defined }}{{ nope.nope is defined }}
{{ self }}
{{ caller }}{{ varargs }}{{ kwargs }}
{{ 'a' if nums }}{{ 'b' if empty else 'c' }}{{ 'd' if noth or e or zero or none or f or nope else 'e' }}
{{ (nums|length - 1) // 2 }}{{ nums|length is even }}{{ nums[nums|length - 1] }}{{ nums[-(1 + 1):] }}{{ nums[:-1]|length }}
{{ "a" ~ 1 ~ none ~ true ~ 1.0 ~ [1] ~ {} }}
{{ {'a': 1, 'a': 2} }}{{ {'a': 1}.a }}{{ {'get': 1}.get }}
{{ [x for x in nums] }}
{{ lambda: 1 }}
{{ s if s is string else s|tojson }}{{ nums if nums is string else nums|tojson }}{{ d if d is not mapping else (d|tojson) }}
{{ '' if 1 > 2 else 'x' ~ 'y' if t else 'z' }}
{% for a in people recursive %}{{ a.name }}{% endfor %}{% for a in people if a.tags is defined and a.tags recursive %}{{ a.name }}{% endfor %}
{% set ns = namespace(found=false) %}{% for p in people %}{% if p.age > 3 %}{% set ns.found = true %}{% break %}{% endif %}{% endfor %}{{ ns.found }}
{% macro type(p) %}{% if p.type == 'array' %}{{ type(p['items']) }}[]{% else %}{{ p.type }}{% endif %}{% endmacro %}{{ type({'type': 'array', 'items': {'type': 'array', 'items': {'type': 'string'}}}) }}
{{ d|tojson|safe }}|{{ 1|safe }}|{{ none|safe }}|{{ e|safe }}{{ 'y' if e|safe else 'n' }}{{ nope|safe }}
{% set a = "<b> & 'x'"|safe %}{{ a }}{{ a ~ '<' }}{{ a is string }}{{ a is mapping }}{{ a is sequence }}{{ a is iterable }}{{ a is number }}
{% set a = '<b>'|safe %}{{ a == '<b>' }}{{ '<b>' == a }}{{ a != 'x' }}{{ a in ['<b>'] }}{{ 'b' in a }}{{ a in 'x<b>y' }}{{ a < 'z' }}{{ a|safe }}
{{ '<' + 'a'|safe + '>&"' }} {{ 'a<'|safe + 'b<'|safe }} {{ q + e|safe }}
{{ ['<', 'a'|safe]|join('&') }}{{ [q|safe, 's'|safe] }}{{ nums|map('safe')|join }}{{ s|safe|default('x') }}{{ e|safe|default('<', true) }}
{% set b %}<{{ s|safe }}>{% endset %}{{ b + '<' }}{% macro m(x) %}{{ x }}{% endmacro %}{{ m('<'|safe) + '<' }}
{{ 1 + 'a'|safe }}
{{ 'a'|safe + nums }}
{{ 'a'|safe - 'b' }}
"""


def snippets():
    """Templates of several lines: a new one begins at a line that starts a tag, unless it is indented or empty."""
    for block in SNIPPETS.strip("\n").split("\n"):
        yield block
    # White space depends on several lines: windows over the block that is about it.
    lines = SNIPPETS.strip("\n").split("\n")
    start = lines.index("  {% raw %} {{ x }} {% if %} {% endraw %}")
    end = lines.index("{%for i in nums%}{{i}}{%endfor%}{%-if t-%}x{%-endif-%}{{one}}{{-one-}}")
    for i in range(start, end):
        for j in range(i + 1, end + 1):
            yield "\n".join(lines[i:j])
            yield "\n".join(lines[i:j]) + "\n"
    yield "{{ 'a\\\nb' }}"
    for text in ("a\r\nb\rc\n\n", "{{ one }}\n\n", "\n", "\n{% if t %}\n\n x{% endif %}\n"):
        yield text


def sources():
    yield from snippets()
    for v in VALUES:
        yield "{{ %s }}" % v
        yield "{{ [%s] }}" % v
        yield "{{ 'y' if %s else 'n' }}{{ not %s }}" % (v, v)
        yield "{%% for x in %s %%}[{{ x }}]{%% else %%}-{%% endfor %%}" % v
        yield "{{ -%s }}" % v if v[0] not in "([" else "{{ -(%s) }}" % v
        for f in FILTERS:
            if v in ITERATORS and f.startswith(PRINTING):
                continue
            yield "{{ (%s)|%s }}" % (v, f)
            yield "{{ (%s)|%s|list }}" % (v, f)
        for t in TESTS:
            if v in ITERATORS and t in PRINTING:
                continue
            yield "{{ (%s) is %s }}{{ (%s) is not %s }}" % (v, t, v, t)
    for a, b in itertools.product(FEW, FEW):
        for op in BINARY:
            yield "{{ %s %s %s }}" % (a, op, b)
    for s in TEXTS:
        for m in METHODS:
            yield "{{ (%s).%s }}" % (s, m)
        for f in FILTERS:
            yield "{{ (%s)|%s }}" % (s, f)
    for v, ms in OTHER_METHODS.items():
        for m in ms.split():
            yield "{{ (%s)%s }}" % (v, m if m[0] in "([" else "." + m)


def main():
    cases, seen = [], set()
    for source in sources():
        if source in seen:
            continue
        seen.add(source)
        try:
            result = _compile_jinja_template(source).render(**json.loads(json.dumps(VARS)))
        except Exception:
            result = None
        if result is not None and re.search(r" at 0x|<(function|built-in|bound method|Macro|class|module|generator|method|TemplateRef)|dict_(keys|items|values)\(|range\(|\d{19}|LoopContext", result):
            continue
        cases.append([source, result])
    path = Path(__file__).parent / "cases.json.gz"
    data = json.dumps(dict(vars=VARS, cases=cases), ensure_ascii=False, separators=(",", ":")).encode()
    with open(path, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=9) as f:
        f.write(data)
    print(len(cases), "cases,", sum(r is None for _, r in cases), "of them errors")


main()
