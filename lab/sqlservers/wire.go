package sqlservers

import (
	"bytes"
	"encoding/binary"
	"io"
)

// postgresMessage reads what a client of PostgreSQL sends: the first message has
// no type, every later one has one byte of it, and each has its length in four.
// It says of each whether it is a COMMIT: a simple query, or a statement that is
// parsed to be run.
func postgresMessage() func(io.Reader) (m []byte, commit bool, err error) {
	first := true
	return func(r io.Reader) ([]byte, bool, error) {
		header := make([]byte, 5)
		if first {
			header = header[:4]
		}
		if _, err := io.ReadFull(r, header); err != nil {
			return nil, false, err
		}
		size := int(binary.BigEndian.Uint32(header[len(header)-4:])) - 4
		m, err := message(r, header, size)
		if err != nil || first {
			first = false
			return m, false, err
		}
		body := m[5:]
		switch m[0] {
		case 'Q':
			return m, isCommit(body), nil
		case 'P': // the statement's name comes first
			_, query, _ := bytes.Cut(body, []byte{0})
			return m, isCommit(query), nil
		}
		return m, false, nil
	}
}

// mysqlMessage reads a packet of a client of MariaDB or MySQL: three bytes of
// length, one of sequence, and in the body first the command, of which 3 is a
// query.
func mysqlMessage(r io.Reader) (m []byte, commit bool, err error) {
	header := make([]byte, 4)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, false, err
	}
	size := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
	if m, err = message(r, header, size); err != nil {
		return nil, false, err
	}
	return m, header[3] == 0 && size > 0 && m[4] == 3 && isCommit(m[5:]), nil
}

func isCommit(query []byte) bool {
	query, _, _ = bytes.Cut(query, []byte{0})
	return bytes.EqualFold(bytes.TrimRight(bytes.TrimSpace(query), ";"), []byte("commit"))
}
