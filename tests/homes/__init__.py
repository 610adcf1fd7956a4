"""Nodes at home: network namespaces with routers between them. `make homes`."""
