package etcdnode

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// User is one that is known to the nodes.
type User struct {
	Name     string   `json:"name"`
	Root     bool     `json:"root"`     // may do everything
	Prefixes []string `json:"prefixes"` // leases under these may be taken
	Others   int      `json:"others"`   // rights to keys that are no whole prefix, or not to read and write
}

// ErrNoUser: there is no user of that name.
var ErrNoUser = errors.New("there is no such user")

// Users lists the users with what they may do, by name.
func Users(ctx context.Context, c *clientv3.Client) ([]User, error) {
	r, err := c.UserList(ctx)
	if err != nil {
		return nil, err
	}
	users, roles := []User{}, map[string]*clientv3.AuthRoleGetResponse{}
	for _, name := range slices.Sorted(slices.Values(r.Users)) {
		got, err := c.UserGet(ctx, name)
		if err != nil {
			return nil, err
		}
		u := User{Name: name, Prefixes: []string{}}
		for _, role := range got.Roles {
			if role == Root {
				u.Root = true
				continue
			}
			if roles[role] == nil {
				if roles[role], err = c.RoleGet(ctx, role); err != nil {
					return nil, err
				}
			}
			u.add(roles[role])
		}
		users = append(users, u)
	}
	return users, nil
}

// add notes the rights of a role.
func (u *User) add(role *clientv3.AuthRoleGetResponse) {
	for _, p := range role.Perm {
		prefix, ok := strings.CutSuffix(string(p.Key), "/")
		whole := string(p.RangeEnd) == clientv3.GetPrefixRangeEnd(string(p.Key))
		if !ok || !whole || p.PermType != clientv3.PermReadWrite {
			u.Others++
		} else if !slices.Contains(u.Prefixes, prefix) {
			u.Prefixes = append(u.Prefixes, prefix)
		}
	}
}

// RemoveUser takes a user away. What it holds ends at its holders' stop times.
func RemoveUser(ctx context.Context, c *clientv3.Client, name string) error {
	_, err := c.UserDelete(ctx, name)
	if errors.Is(err, rpctypes.ErrUserNotFound) {
		return ErrNoUser
	}
	return err
}

// SetPassword gives a user that is there another password.
func SetPassword(ctx context.Context, c *clientv3.Client, name, password string) error {
	_, err := c.UserChangePassword(ctx, name, password)
	if errors.Is(err, rpctypes.ErrUserNotFound) {
		return ErrNoUser
	}
	return err
}
