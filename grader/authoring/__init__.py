"""How what students get is made: assignment files and notebooks from their sources, archives, new labs; not for students."""
