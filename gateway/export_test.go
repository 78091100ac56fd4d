package gateway

import "github.com/millrace-data/millrace/gateway/auth"

// RouteRow is the part of a row of the route table that tests need.
type RouteRow struct {
	Method, Pattern string
	Right           auth.Right
}

// RouteTable returns the rows of the data port, or of the admin port.
func (g *Gateway) RouteTable(admin bool) []RouteRow {
	table := g.dataRoutes()
	if admin {
		table = g.adminRoutes()
	}
	var rows []RouteRow
	for _, row := range table {
		rows = append(rows, RouteRow{row.method, row.pattern, row.right})
	}
	return rows
}
