package etcdcluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// memberEnv is set in the environment of a member's process.
const memberEnv = "STINT_LAB_ETCD_MEMBER"

// Main has to be the first thing that the program does which calls Start: in
// TestMain, or in main. In the process of a member it runs the member and ends
// the process; everywhere else it returns at once.
func Main() {
	if os.Getenv(memberEnv) == "" {
		return
	}
	if err := runMember(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runMember starts the member that the first line of its input describes, says
// where it listens, and closes it when the input ends.
func runMember(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("etcdcluster: reading the member's settings: %w", err)
	}
	var s settings
	if err := json.Unmarshal(line, &s); err != nil {
		return fmt.Errorf("etcdcluster: the member's settings: %w", err)
	}
	m, err := startMember(s)
	if err != nil {
		return tell(out, report{Error: err.Error()})
	}
	defer m.close()
	if err := tell(out, m.report()); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, lines)
		ended <- err
	}()
	select {
	case err = <-ended:
	case err = <-m.etcd.Err():
	}
	return err
}

// report is the only line that a member writes to its standard output.
type report struct {
	Error                 string `json:",omitempty"`
	Peer, Client, Control string // addresses, host:port
}

func tell(out io.Writer, r report) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = out.Write(append(line, '\n'))
	return err
}
