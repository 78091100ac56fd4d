package rowgroup

import (
	"encoding/binary"
	"errors"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// record assembles a row, or a struct inside a list, from its columns.
type record struct {
	layout  *rows.Layout
	builder *rows.Builder
	steps   []step
}

// step is a node of a record's layout.
type step struct {
	node *rows.Node
	def  int       // definition level at which the node is present
	skip int       // same as Skip in rows.Step
	cols []*column // columns of the node
	list *list     // assembler of the node, if it is a list
}

// list assembles the elements of a list.
type list struct {
	rep     int // repetition level of all elements except the first
	def     int // definition level at which an element exists
	present int // definition level at which the element is not null
	cols    []*column
	node    *rows.Node // the element
	inner   *list      // for elements that are themselves lists
	record  *record    // for elements that are structs
	buf     []byte     // encoded lists of the current row
	nulls   []bool     // for each element of the current list, whether the element is null
}

var (
	errLevels = errors.New("the levels of its columns do not match each other")
	errNull   = errors.New("a list of fixed-size values has a null element, which is not supported: omit the column (--fields), or write the file again with a value for each null or with null for the whole list")
)

// planner converts a schema to records. It consumes the columns in schema order.
type planner struct {
	columns []*column
	at      int
	lists   []*list
}

// record plans a row or a struct. now contains the levels at which the record is present.
func (p *planner) record(fields []*rows.Node, now levels) (*record, error) {
	l, err := rows.NewLayout(fields)
	if err != nil {
		return nil, err
	}
	r := &record{layout: l, builder: rows.NewBuilder(l)}
	for _, n := range fields {
		if err := p.add(r, n, now); err != nil {
			return nil, err
		}
	}
	for i := range r.steps {
		r.steps[i].skip = l.Steps[i].Skip
	}
	return r, nil
}

func (p *planner) add(r *record, n *rows.Node, now levels) (err error) {
	if n.Nullable {
		now.def++
	}
	at, first := len(r.steps), p.at
	r.steps = append(r.steps, step{node: n, def: now.def})
	switch n.Kind {
	case rows.Struct:
		for _, c := range n.Children {
			if err := p.add(r, c, now); err != nil {
				return err
			}
		}
	case rows.List:
		if r.steps[at].list, err = p.list(n, now); err != nil {
			return err
		}
	default:
		p.leaf(now)
	}
	r.steps[at].cols = p.columns[first:p.at]
	return nil
}

func (p *planner) leaf(now levels) {
	p.columns[p.at].most = now
	p.at++
}

// list plans a list. now contains the levels at which the list is present.
func (p *planner) list(n *rows.Node, now levels) (l *list, err error) {
	now.def++
	now.rep++
	l = &list{rep: now.rep, def: now.def, node: n.Children[0]}
	p.lists = append(p.lists, l)
	if l.node.Nullable {
		now.def++
	}
	l.present = now.def
	first := p.at
	switch l.node.Kind {
	case rows.Struct:
		l.record, err = p.record(l.node.Children, now)
	case rows.List:
		l.inner, err = p.list(l.node, now)
	default:
		p.leaf(now)
	}
	l.cols = p.columns[first:p.at]
	return l, err
}

// drop consumes one entry without a value from each column, because an ancestor is null or empty.
// The levels of all these entries must agree.
func drop(cols []*column, def int) {
	for _, c := range cols {
		if now := c.must(); now.def != def {
			c.fail(errLevels)
		}
		c.has = false
	}
}

// read reads the next record into the record's builder. Lists must not exceed limit.
func (r *record) read(limit int64) {
	b := r.builder
	b.Reset()
	for i := 0; i < len(r.steps); i++ {
		s := &r.steps[i]
		if s.node.Kind == rows.Struct && !s.node.Nullable {
			continue
		}
		now := s.cols[0].must()
		switch {
		case s.node.Nullable && now.def == s.def-1:
			drop(s.cols, now.def)
			b.Null(i)
			i += s.skip
		case now.def < s.def:
			s.cols[0].fail(errLevels)
		case s.list != nil:
			b.Variable(s.list.read(limit))
		case s.node.Kind == rows.Fixed:
			b.Fixed(s.cols[0].value())
		case s.node.Kind == rows.Bytes:
			b.Variable(s.cols[0].value())
		}
	}
}

// read reads a list that is present, that is, not null.
func (l *list) read(limit int64) []byte {
	now := l.cols[0].must()
	flat := l.node.Kind == rows.Fixed
	switch {
	case now.def < l.def-1:
		l.cols[0].fail(errLevels)
	case now.def == l.def-1: // the list is empty
		if drop(l.cols, now.def); flat {
			return nil
		}
		return rows.SealList(nil, 0, nil)
	case flat:
		return l.readFlat(limit)
	}
	return l.readNested(limit)
}

// more reports whether the list has another element. All columns of the list must agree.
func (l *list) more() bool {
	goesOn := false
	for i, c := range l.cols {
		now, ok := c.peek()
		more := ok && now.rep == l.rep
		if ok && now.rep > l.rep || i > 0 && more != goesOn {
			c.fail(errLevels)
		}
		goesOn = more
	}
	return goesOn
}

// readFlat reads a list of fixed-size values. It does not copy values that are contiguous in one
// page.
func (l *list) readFlat(limit int64) []byte {
	c, start := l.cols[0], len(l.buf)
	for n := 0; ; {
		if c.must().def != l.present {
			c.fail(errNull)
		}
		c.has = false
		n++
		if int64(n)*int64(l.node.Size) > limit {
			fail(rows.ErrLimit)
		}
		if c.left > 0 {
			if !l.more() {
				return l.take(n, start, limit)
			}
			continue
		}
		v := l.take(n, start, limit) // take the values before the next page replaces this one
		if !l.more() {
			return v
		}
		if len(l.buf) == start {
			l.buf = append(l.buf, v...)
		}
		n = 0
	}
}

// take reads the values of n entries of the current page. It returns the list's values that are
// already in the buffer, followed by these values.
func (l *list) take(n, start int, limit int64) []byte {
	c := l.cols[0]
	if p, ok := c.src.(*plainFixed); ok {
		v := p.run(n)
		if len(l.buf) == start {
			return v
		}
		l.buf = append(l.buf, v...)
		return l.buf[start:]
	}
	for range n {
		if l.buf = append(l.buf, c.src.next()...); int64(len(l.buf)) > limit {
			fail(rows.ErrLimit)
		}
	}
	return l.buf[start:]
}

// readNested reads a list in the nested encoding.
func (l *list) readNested(limit int64) []byte {
	start := len(l.buf)
	l.nulls = l.nulls[:0]
	for more := true; more; more = l.more() {
		now := l.cols[0].must()
		null := l.node.Nullable && now.def == l.present-1
		switch {
		case null:
			drop(l.cols, now.def)
		case now.def < l.present:
			l.cols[0].fail(errLevels)
		default:
			l.element(limit)
		}
		l.nulls = append(l.nulls, null)
		if int64(len(l.buf)+len(l.nulls)) > limit {
			fail(rows.ErrLimit)
		}
	}
	l.buf = rows.SealList(l.buf, start, l.nulls)
	return l.buf[start:]
}

// element appends an element that is not null.
func (l *list) element(limit int64) {
	var v []byte
	switch {
	case l.record != nil:
		l.record.read(limit)
		var err error
		if l.buf, err = l.record.builder.Append(l.buf, limit); err != nil {
			fail(err)
		}
		return
	case l.inner != nil:
		v = l.inner.read(limit)
	default:
		v = l.cols[0].value()
	}
	if int64(len(l.buf)+len(v)) > limit {
		fail(rows.ErrLimit)
	}
	l.buf = append(binary.LittleEndian.AppendUint32(l.buf, uint32(len(v))), v...)
}
