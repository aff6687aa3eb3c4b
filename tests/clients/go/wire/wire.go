// Package wire is how a test speaks with a client library of this language: records
// and words come on standard input, what was read goes to standard output. A record is
// a line of three words: key, value and headers; "-" is null, "x" and hexadecimal
// digits are bytes, headers are name=bytes joined by commas.
package wire

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

type Header struct {
	Name  string
	Value []byte
}

type Record struct {
	Key, Value []byte
	Headers    []Header
}

// Start is an offset, or a time where there is one.
type Start struct {
	Offset int64
	Time   time.Time
}

type Producer interface {
	Send(Record) error
	Flush() error
	Begin() error
	End(commit bool) error
	Close() error
}

type Member interface {
	Commit() error // all that was emitted
	Close() error
}

type Library interface {
	Producer(bootstrap, topic, codec, transactionalID string) (Producer, error)
	Fetch(bootstrap, topic string, start Start, count int, committed bool) error
	Member(bootstrap, topic, group string) (Member, error)
}

// Run does what the program's arguments say: VERSION, a verb and its words.
func Run(library func(version string) Library) {
	if err := run(library(os.Args[1]), os.Args[2], os.Args[3], os.Args[4], os.Args[5:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(library Library, verb, bootstrap, topic string, words []string) error {
	switch verb {
	case "produce":
		producer, err := library.Producer(bootstrap, topic, words[0], words[1])
		if err != nil {
			return err
		}
		if err := produce(producer); err != nil {
			return err
		}
		return producer.Close()
	case "fetch":
		count, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		return library.Fetch(bootstrap, topic, start(words[0]), count, words[2] == "committed")
	default:
		member, err := library.Member(bootstrap, topic, words[0])
		if err != nil {
			return err
		}
		err = lines(func(string) error { return done(member.Commit()) })
		if err != nil {
			return err
		}
		return member.Close()
	}
}

func start(word string) Start {
	number, _ := strconv.ParseInt(strings.TrimPrefix(word, "@"), 10, 64)
	if strings.HasPrefix(word, "@") {
		return Start{Time: time.UnixMilli(number)}
	}
	return Start{Offset: number}
}

func produce(producer Producer) error {
	return lines(func(line string) error {
		switch line {
		case "flush":
			return done(producer.Flush())
		case "begin":
			return done(producer.Begin())
		case "commit", "abort":
			return done(producer.End(line == "commit"))
		}
		return producer.Send(parse(line))
	})
}

func lines(each func(string) error) error {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = each(strings.TrimSpace(line))
		}
		if err != nil {
			return err
		}
	}
}

func done(err error) error {
	if err == nil {
		say("done")
	}
	return err
}

var out sync.Mutex

func say(line string) {
	out.Lock()
	defer out.Unlock()
	fmt.Println(line)
}

// Assigned says which partitions a member has now.
func Assigned(partitions []int32) {
	words := make([]string, len(partitions))
	for i, partition := range partitions {
		words[i] = strconv.Itoa(int(partition))
	}
	say("assigned " + strings.Join(words, ","))
}

// Emit says what was read.
func Emit(partition int32, offset int64, record Record) {
	headers := make([]string, len(record.Headers))
	for i, header := range record.Headers {
		headers[i] = header.Name + "=" + text(header.Value)
	}
	all := strings.Join(headers, ",")
	if all == "" {
		all = "-"
	}
	say(fmt.Sprintf("record %d %d %s %s %s", partition, offset, text(record.Key), text(record.Value), all))
}

func text(value []byte) string {
	if value == nil {
		return "-"
	}
	return "x" + hex.EncodeToString(value)
}

func parse(line string) Record {
	words := strings.Fields(line)
	record := Record{Key: bytes(words[0]), Value: bytes(words[1])}
	if words[2] != "-" {
		for _, word := range strings.Split(words[2], ",") {
			name, value, _ := strings.Cut(word, "=")
			record.Headers = append(record.Headers, Header{name, bytes(value)})
		}
	}
	return record
}

func bytes(word string) []byte {
	if word == "-" {
		return nil
	}
	value, err := hex.DecodeString(word[1:])
	if err != nil {
		panic(err)
	}
	return value
}
