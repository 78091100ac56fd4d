package rowgroup

import "fmt"

// memory counts the bytes that decoding a row group holds beside its rows.
type memory struct{ left int64 }

func (m *memory) take(n int64) error {
	if n > m.left {
		return fmt.Errorf("pages and dictionaries need more memory than the rows allow (%d bytes more than is left): write the file with smaller row groups (row_group_size=)", n-m.left)
	}
	m.left -= n
	return nil
}

func (m *memory) give(n int64) { m.left += n }
