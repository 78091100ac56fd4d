package peer

const maxQueryBytes = 4 << 20

func (q *Query) sizeHint() int                         { return 0 }
func (q *Query) AppendBinary(b []byte) ([]byte, error) { return b, nil }
func ParseQuery(b []byte) (*Query, error)              { return &Query{}, nil }
