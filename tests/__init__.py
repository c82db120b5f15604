"""The tests; a package so that files of one name in different folders do not collide."""
