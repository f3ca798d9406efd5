package docker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/moby/moby/client"
)

// BuiltImage is an image that the daemon has under a name that Build gives.
type BuiltImage struct {
	Name string
	Size int64 // bytes, with the layers that it shares
}

// BuiltImages returns the images of the names that Build gives.
func BuiltImages(ctx context.Context, o Options) ([]BuiltImage, error) {
	cli, err := o.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cli.Close() }()
	var names []string
	for _, agent := range imageAgents() {
		names = append(names, ImageName(agent))
	}
	res, err := cli.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("reference", names...)})
	if err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	var images []BuiltImage
	for _, image := range res.Items {
		for _, name := range image.RepoTags {
			if slices.Contains(names, name) { // it may have names of the person's, too
				images = append(images, BuiltImage{name, image.Size})
			}
		}
	}
	slices.SortFunc(images, func(a, b BuiltImage) int { return cmp.Compare(a.Name, b.Name) })
	return images, nil
}

// RemoveImage takes a name from an image. The daemon removes the image when that was its last name.
func RemoveImage(ctx context.Context, o Options, name string) error {
	cli, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = cli.Close() }()
	if _, err := cli.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true}); err != nil {
		return fmt.Errorf("removing the image %s: %w", name, err)
	}
	return nil
}
