package control

import (
	"encoding/base64"
	"io"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"

	"whorl/api"
)

// maxPage is the most items of a page that a caller may ask for.
const maxPage = 1000

// list is the form of all lists: an object, so that fields can be added beside the items.
type list[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next_cursor,omitempty"`
}

// column is one of a table's.
type column[T any] struct {
	name string
	text func(*T) string
}

// table says how lists of one kind of item are ordered and shown.
type table[T any] struct {
	key     func(*T) string // orders the items; a page begins behind the key of the last one
	columns []column[T]
}

// sort puts items into their order.
func (t table[T]) sort(all []T) {
	sort.SliceStable(all, func(i, j int) bool { return t.key(&all[i]) < t.key(&all[j]) })
}

// cursorMark begins what a cursor says, so that a word which somebody made up is not taken for one.
const cursorMark = ">"

// replyList answers with a page of the items, as JSON or, to who asks for text/plain, as a table.
func replyList[T any](a Dialect, w http.ResponseWriter, r *http.Request, t table[T], all []T, limit *int, cursor *string) {
	if all == nil {
		all = []T{}
	}
	t.sort(all)
	if cursor != nil && *cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(*cursor)
		after, ours := strings.CutPrefix(string(b), cursorMark)
		if err != nil || !ours {
			a.Fail(w, r, api.Invalid("cursor", "%q is not the next_cursor of a page", api.Clip(*cursor)))
			return
		}
		all = all[sort.Search(len(all), func(i int) bool { return t.key(&all[i]) > after }):]
	}
	out := list[T]{Items: all}
	if limit != nil {
		if *limit < 1 || *limit > maxPage {
			a.Fail(w, r, api.Invalid("limit", "limit is %d: want 1 to %d", *limit, maxPage))
			return
		}
		if len(all) > *limit {
			out.Items = all[:*limit]
			out.Next = base64.RawURLEncoding.EncodeToString([]byte(cursorMark + t.key(&all[*limit-1])))
		}
	}
	if wantsText(r) {
		if out.Next != "" {
			q := r.URL.Query()
			q.Set("cursor", out.Next)
			w.Header().Set("Link", "<"+r.URL.EscapedPath()+"?"+q.Encode()+`>; rel="next"`)
		}
		writeTable(w, t.columns, out.Items)
		return
	}
	api.Reply(w, out)
}

// writeTable shows items as aligned columns, under a line of names if they have some.
func writeTable[T any](w http.ResponseWriter, columns []column[T], items []T) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	tabulate(w, columns, items)
}

// tabulate writes columns, with their names if they have any.
func tabulate[T any](w io.Writer, columns []column[T], items []T) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cell func(column[T]) string) {
		for i, c := range columns {
			text := printable(cell(c))
			if i < len(columns)-1 {
				text += "\t"
			}
			tw.Write([]byte(text))
		}
		tw.Write([]byte("\n"))
	}
	if columns[0].name != "" {
		line(func(c column[T]) string { return c.name })
	}
	for i := range items {
		line(func(c column[T]) string {
			if text := c.text(&items[i]); text != "" {
				return text
			}
			return "-"
		})
	}
	tw.Flush()
}

// printable is a text without what would break a table or speak to a terminal: some texts come
// from strangers.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 || !strconv.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
}

// wantsText tells whether a caller prefers plain text to JSON.
func wantsText(r *http.Request) bool {
	accept := strings.ToLower(r.Header.Get("Accept"))
	text, json := strings.Index(accept, "text/plain"), strings.Index(accept, "application/json")
	return text >= 0 && (json < 0 || text < json)
}
