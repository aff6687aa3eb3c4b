"""Why a catalog cannot be opened. One clear sentence each, for people."""


class CatalogError(Exception):
    """The catalog cannot be used."""


class CatalogMissing(CatalogError):
    """There is none where one must be: the broker has not been started here."""


class CatalogTooNew(CatalogError):
    """A newer version of this program has written it."""


class CatalogTooOld(CatalogError):
    """An older version has, and a broker of this one has not been started since."""
