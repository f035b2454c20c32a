"""Words of the English-Turkish demo: what each means, what it can be said of, and in which way it is irregular.

Every line of a list is one word (or one use of a verb). Only what no rule can tell is written down: the meaning, the
type and the exceptions. All inflected forms are made by the rules in `turkish_grammar.py`.

Nouns       `turkish = english [/ plural] : tags`
            plural  the English plural when irregular; `-` when the noun is used in the singular only
            types   person animal food ... : what verbs and adjectives select
            he she  the English pronoun of a person (both when neither is given)
            mine    may be somebody's;  `single`: one each (no "my mothers")
            mass    uncountable: no "a", no plural;  s1 ... s5: the size of an animal
            in      `in` `at` `on`: the English preposition of a place
            hard    the last consonant stays, though the rule would soften it (saat -> saati, bilet -> bileti)
            soft    the last consonant softens, though the rule would keep it (kurt -> kurdu)
            drops   the last vowel is lost before a vowel (resim -> resmi)
            front   takes front suffixes after a back vowel (saat -> saati)
            y-stem  the stem ends in y before a vowel (su -> suyu)
            doubles the last consonant is doubled before a vowel (sır -> sırrı)
Verbs       `turkish = english [/ past] : case flags : subjects -> objects`
            state   a state: English has no progressive, and its simple present is Turkish -iyor (wants -> istiyor)
            bare    an uncountable object may stand bare ("drank water" -> "su içti")
            def     the object is always definite;  `smaller`: the object is a smaller animal than the subject
            soft    t -> d before a vowel: git-, et- and what is built with it, tat-;  `narrow`: ye- -> yi- before y
            maybe   the complement may be missing ("The cat slept." / "The cat slept in the garden.")
Adjectives  `turkish = english : types`

A type with a minus excludes: `person -kid` is every person but the children.
"""

from __future__ import annotations

from dataclasses import dataclass

_NOUNS = """
adam = man / men : person he
kadın = woman / women : person she
çocuk = child / children : person kid mine
kız = girl : person kid she
oğlan = boy : person kid he
anne = mother : person she mine single
baba = father : person he mine single
teyze = aunt : person she mine
amca = uncle : person he mine
dede = grandfather : person elder he mine
büyükanne = grandmother : person elder she mine
kuzen = cousin : person mine
arkadaş = friend : person mine
komşu = neighbor : person mine
misafir = guest : person mine
öğretmen = teacher : person mine
öğrenci = student : person mine
doktor = doctor : person mine
avukat = lawyer : person mine hard
hemşire = nurse : person
mühendis = engineer : person
asker = soldier : person
çiftçi = farmer : person
fırıncı = baker : person
aşçı = chef : person
terzi = tailor : person
şoför = driver : person
yazar = writer : person
ressam = painter : person
şarkıcı = singer : person
kasap = butcher : person
yargıç = judge : person
kral = king : person he
kraliçe = queen : person she
prens = prince : person he
prenses = princess : person she
işçi = worker : person
kaptan = captain : person
garson = waiter : person he
hırsız = thief / thieves : person
turist = tourist : person hard
çoban = shepherd : person
gazeteci = journalist : person
avcı = hunter : person
müdür = manager : person mine
marangoz = carpenter : person
köylü = villager : person
müşteri = customer : person mine
oyuncu = actor : person
palyaço = clown : person
casus = spy : person

kedi = cat : animal predator pet mine s2
köpek = dog : animal predator pet mine s3
fare = mouse / mice : animal grazer s1
at = horse : animal grazer pet mine ridden s4
inek = cow : animal grazer mine s4
keçi = goat : animal grazer mine s3
kuzu = lamb : animal grazer mine s3
eşek = donkey : animal grazer mine ridden s4
deve = camel : animal grazer ridden s4
boğa = bull : animal grazer s4
kuş = bird : animal bird pet mine s1
tavuk = chicken : animal bird mine s2
ördek = duck : animal bird s2
kaz = goose / geese : animal bird s2
horoz = rooster : animal bird s2
kartal = eagle : animal bird predator s3
karga = crow : animal bird s2
baykuş = owl : animal bird predator s2
papağan = parrot : animal bird pet mine s2
leylek = stork : animal bird predator s2
güvercin = pigeon : animal bird s1
ayı = bear : animal predator s4
kurt = wolf / wolves : animal predator soft s4
tilki = fox : animal predator s3
aslan = lion : animal predator s5
kaplan = tiger : animal predator s5
timsah = crocodile : animal predator s5
yılan = snake : animal predator s2
fil = elephant : animal grazer s5
zürafa = giraffe : animal grazer s5
maymun = monkey : animal grazer s3
tavşan = rabbit : animal grazer pet mine s2
sincap = squirrel : animal grazer s1
kaplumbağa = turtle : animal grazer pet mine s1
kurbağa = frog : animal s1
kelebek = butterfly : animal s1
örümcek = spider : animal s1

elma = apple : food plant thing mine
portakal = orange : food plant thing
armut = pear : food plant thing mine
muz = banana : food plant thing mine
şeftali = peach : food plant thing
karpuz = watermelon : food plant thing
havuç = carrot : food plant thing
domates = tomato / tomatoes : food plant thing cookable
patates = potato / potatoes : food plant thing cookable fried
soğan = onion : food plant thing cookable fried
mantar = mushroom : food plant thing cookable fried
patlıcan = eggplant : food plant thing cookable fried
yumurta = egg : food meat thing cookable fried breakable mine
balık = fish / - : food meat thing cookable fried mine
kanat = wing : food meat thing cookable fried drawn
simit = bagel : food thing mine
börek = pie : food thing made baked cutting mine
kurabiye = cookie : food thing made baked mine
pasta = cake : food thing made baked cutting mine
ekmek = bread : mass food thing baked made cutting mine
peynir = cheese : mass food thing mine cutting
et = meat : mass food meat thing cookable fried cutting mine
pilav = rice : mass food cookable thing mine
bal = honey : mass food thing
yoğurt = yogurt : mass food thing made mine
çikolata = chocolate : mass food thing mine
reçel = jam : mass food thing made
ıspanak = spinach : mass food plant thing cookable
makarna = pasta : mass food thing cookable made mine
salata = salad : mass food thing made mine
dondurma = ice cream : mass food thing made mine
su = water : mass drink lapped poured y-stem mine
süt = milk : mass drink lapped poured mine
çay = tea : mass drink poured mine
kahve = coffee : mass drink poured mine
limonata = lemonade : mass drink poured mine
çorba = soup : mass drink poured cookable mine

kitap = book : read written thing mine
mektup = letter : read written sent replied thing mine
gazete = newspaper : read thing mine
dergi = magazine : read thing mine
öykü = story : read written told text mine
şiir = poem : read written text mine
roman = novel : read written thing mine
metin = text : read written text drops
rapor = report : read written sent signed text mine
mesaj = message : read written sent replied text mine
sözlük = dictionary : read thing mine
harita = map : drawn thing mine
kelime = word : written learned text
cümle = sentence : written text read
soru = question : asked text mine
cevap = answer : text written mine
sır = secret : told doubles mine
sözleşme = contract : read signed sent text mine

kalem = pen : thing tool mine
defter = notebook : thing tool read mine
anahtar = key : thing tool mine
çanta = bag : thing openable mine
kutu = box : thing openable mine
bıçak = knife / knives : thing tool washed mine
kaşık = spoon : thing tool washed mine
tabak = plate : thing washed breakable mine
bardak = glass : thing washed breakable mine
şişe = bottle : thing openable breakable mine
lamba = lamp : thing breakable machine mine
saat = clock : thing machine breakable hard front mine
telefon = phone : thing machine tool breakable mine
bilgisayar = computer : thing machine tool mine
radyo = radio : thing machine heard mine
ayna = mirror : thing breakable mine
masa = table : furniture made painted mine
sandalye = chair : furniture made painted mine
yatak = bed : furniture made mine
dolap = cupboard : furniture openable made painted mine
kapı = door : openable painted breakable fixed mine
pencere = window : openable breakable fixed mine
duvar = wall : painted climbed fixed
merdiven = ladder : thing climbed made mine
araba = car : vehicle driven machine washed mine
kamyon = truck : vehicle driven machine mine
otobüs = bus : vehicle driven boarded
tren = train : vehicle boarded
gemi = ship : vehicle boarded
uçak = plane : vehicle boarded
bisiklet = bicycle : vehicle ridden machine hard mine
gömlek = shirt : clothes sewn thing mine
elbise = dress : clothes sewn thing mine
etek = skirt : clothes sewn thing mine
ceket = jacket : clothes sewn thing hard mine
palto = coat : clothes sewn thing mine
şapka = hat : clothes thing mine
çorap = sock : clothes thing mine
kazak = sweater : clothes thing mine
ayakkabı = shoe : clothes thing mine
yüzük = ring : clothes thing mine
şemsiye = umbrella : thing tool openable mine
halı = carpet : thing washed mine
battaniye = blanket : thing washed mine
perde = curtain : thing washed sewn mine
havlu = towel : thing washed tool mine
top = ball : thing toy hit mine
bebek = doll : thing toy mine
oyuncak = toy : thing toy made breakable mine
davul = drum : thing instrument hit mine
gitar = guitar : thing instrument mine
keman = violin : thing instrument mine
piyano = piano : furniture instrument mine
resim = picture : thing drawn drops mine
fotoğraf = photograph : thing mine
çiçek = flower : thing smelled drawn picked mine
gül = rose : thing smelled drawn picked mine
ağaç = tree : fixed drawn climbed cutting
yaprak = leaf / leaves : thing drawn picked
taş = stone : thing toy
ip = rope : thing tool pulled cutting
sepet = basket : thing made hard mine
bilet = ticket : thing hard mine
paket = package : thing openable sent hard mine
hediye = gift : thing openable sent mine
para = money : mass thing mine
bayrak = flag : thing sewn
çekiç = hammer : thing tool mine
kılıç = sword : thing tool mine
balta = axe : thing tool mine
ilaç = medicine : mass thing mine
şarkı = song : heard written learned sung text mine
film = movie : watched text mine

ev = house : place in indoors home rented painted mine
okul = school : place at indoors mine
bahçe = garden : place in outdoors mine
oda = room : place in indoors rented painted mine
mutfak = kitchen : place in indoors painted mine
ofis = office : place in indoors rented mine
sınıf = classroom : place in indoors mine
hastane = hospital : place in building
kütüphane = library : place in building
müze = museum : place in building
otel = hotel : place in building home mine
lokanta = restaurant : place in building mine
fabrika = factory : place in building mine
banka = bank : place in building
sinema = cinema : place in building
saray = palace : place in building home
kale = castle : place in building home
istasyon = station : place at building
pazar = market : place at outdoors
park = park : place in outdoors
sokak = street : place in outdoors mine
köy = village : place in outdoors home mine
şehir = city : place in outdoors home drops
orman = forest : place in outdoors
tarla = field : place in outdoors mine
çiftlik = farm : place on outdoors home mine
mağara = cave : place in outdoors home
deniz = sea : place in water mass
nehir = river : place in water drops
göl = lake : place in water
havuz = pool : place in water mine
dağ = mountain : place on outdoors climbed
tepe = hill : place on outdoors climbed
ada = island : place on outdoors home
köprü = bridge : place on outdoors painted
plaj = beach : place on outdoors
balkon = balcony : place on indoors mine
"""

_VERBS = """
ye = eat / ate : acc bare narrow : person -> food
ye = eat / ate : acc smaller narrow : predator -> animal
ye = eat / ate : acc bare narrow : predator -> meat
ye = eat / ate : acc bare narrow : grazer -> plant
iç = drink / drank : acc bare : person -> drink
iç = drink / drank : acc bare : animal -> lapped
oku = read / read : acc : person -> read
yaz = write / wrote : acc : person -> written
gör = see / saw : acc state : person animal -> person animal thing furniture vehicle place fixed
duy = hear / heard : acc state def : person animal -> person animal heard
sev = love : acc state def : person -> person animal food drink place heard instrument clothes
iste = want : acc state bare : person -> food drink thing clothes read
tanı = recognize : acc def : person -> person
al = take / took : acc bare : person -> thing
sat = sell / sold : acc bare : person -> thing furniture driven
taşı = carry : acc bare : person -> thing furniture
aç = open : acc : person -> openable
kapat = close : acc : person -> openable -sent
kır = break / broke : acc : person -> breakable
yıka = wash : acc : person -> washed plant clothes pet
temizle = clean : acc : person -> indoors furniture washed clothes
bul = find / found : acc : person animal -> thing person animal
kaybet = lose / lost : acc soft : person -> thing
ara = look for : acc : person -> thing person animal
pişir = cook : acc bare : person -> cookable
pişir = bake : acc bare : person -> baked
kes = cut / cut : acc bare : person -> cutting plant
sakla = hide / hid : acc : person -> thing
çek = pull : acc : person -> pulled furniture driven
it = push : acc def : person -> furniture driven person
tut = hold / held : acc : person -> thing
at = throw / threw : acc : person -> toy clothes
yakala = catch / caught : acc : person -> animal person
yakala = catch / caught : acc smaller : predator -> animal
kovala = chase : acc def : person -> animal person
kovala = chase : acc def smaller : predator -> animal
çiz = draw / drew : acc : person -> drawn animal
boya = paint : acc : person -> painted
dik = sew : acc : person -> sewn
giy = wear / wore : acc : person -> clothes
getir = bring / brought : acc bare : person -> thing food drink
gönder = send / sent : acc : person -> sent
bekle = wait for : acc : person -> person boarded
izle = watch : acc def : person animal -> person animal
izle = watch : acc : person -> watched
dinle = listen to : acc def : person -> person bird heard
çal = play : acc : person -> instrument
onar = repair : acc : person -> machine furniture vehicle
yap = make / made : acc bare : person -> made
unut = forget / forgot : acc def : person -> text thing person
hatırla = remember : acc state def : person -> text person place told
anla = understand / understood : acc state def : person -> text person
öğren = learn : acc : person -> learned told
ziyaret et = visit : acc soft def : person -> person building home
öp = kiss : acc def : person -> person
kucakla = hug : acc def : person -> person pet
besle = feed / fed : acc def : person -> animal
süpür = sweep / swept : acc : person -> indoors
topla = pick : acc : person -> picked plant
tat = taste : acc soft : person -> food drink
kokla = smell : acc def : person animal -> smelled
kokla = smell : acc def : person -> food drink
ısır = bite / bit : acc def : predator -> person animal
takip et = follow : acc soft def : person animal -> person animal
beğen = like : acc state def : person -> read clothes food furniture place watched
seç = choose / chose : acc : person -> thing clothes read
kullan = use : acc : person -> tool machine
dök = pour : acc bare : person -> poured
kızart = fry : acc bare : person -> fried
kirala = rent : acc : person -kid -> driven boarded rented
imzala = sign : acc : person -kid -> signed
çevir = translate : acc : person -> text read
sür = drive / drove : acc : person -kid -> driven
kaldır = lift : acc : person -> thing furniture
düşür = drop : acc : person -> thing
sor = ask : acc : person -> asked
cevapla = answer : acc : person -> asked replied
anlat = tell / told : acc : person -> told
söyle = sing / sang : acc : person -> sung
kurtar = rescue : acc : person -> person animal
çağır = call : acc : person -> person pet
bak = look at : dat : person animal -> person animal thing furniture place fixed
bin = ride / rode : dat : person -> ridden
bin = get on / got on : dat : person -> boarded
gir = enter : dat : person -> indoors building
saldır = attack : dat : predator -> person animal
yaklaş = approach : dat : person animal -> person animal place fixed
inan = believe : dat state def : person -> person
ulaş = reach : dat : person -> place
tırman = climb : dat : person -> climbed
dön = return to : dat : person -> place
git = go to / went to : dat soft : person -> place
gel = come to / came to : dat : person -> place
gel = come to / came to : dat : animal -> outdoors
koş = run to / ran to : dat : person -> place person
koş = run to / ran to : dat : animal -> outdoors person
yürü = walk to : dat : person -> place
dokun = touch : dat : person -> person animal thing furniture
yardım et = help : dat soft : person -> person animal
vur = hit / hit : dat : person -> hit
kork = fear : abl state def : person animal -> animal
kork = fear : abl state def : person -> person animal water
kaç = escape from : abl : person animal -> person animal
kaç = escape from : abl : person -> building home
nefret et = hate : abl state def soft : person -> person animal place food
ayrıl = leave / left : abl : person -> place
gel = come from / came from : abl : person -> place
dön = return from : abl : person -> place
in = get off / got off : abl : person -> boarded ridden
uyu = sleep / slept : loc maybe : person animal -> indoors outdoors
otur = sit / sat : loc maybe : person -> indoors outdoors
oyna = play : loc maybe : person pet -> indoors outdoors
çalış = work : loc maybe : person -> indoors outdoors building
gül = laugh : loc maybe : person -> indoors outdoors
ağla = cry : loc maybe : person -> indoors outdoors
yüz = swim / swam : loc maybe : person -> water
uç = fly / flew : loc maybe : bird ->
koş = run / ran : loc maybe : person animal -> outdoors
yürü = walk : loc maybe : person animal -> outdoors
dans et = dance : loc maybe soft : person -> indoors outdoors
dinlen = rest : loc maybe : person animal -> indoors outdoors
yaşa = live : loc state : person -> home
yaşa = live : loc state : animal -> outdoors
bekle = wait : loc maybe : person animal -> indoors outdoors building
düş = fall / fell : loc maybe : person animal -> outdoors
gülümse = smile : loc maybe : person -> indoors outdoors
bağır = shout : loc maybe : person -> indoors outdoors
düşün = think / thought : loc maybe : person -> indoors outdoors
konuş = talk : loc maybe : person -> indoors outdoors building
titre = shiver : loc maybe : person animal -> indoors outdoors
kal = stay : loc : person -> building home
"""

_ADJECTIVES = """
küçük = small : animal thing clothes furniture place -mass
büyük = big : animal thing clothes furniture place vehicle fixed -mass
yaşlı = old : person animal -kid
eski = old : thing clothes furniture place vehicle -food -picked -mass
genç = young : person -kid -elder
yeni = new : thing -food -picked clothes furniture vehicle place -mass
güzel = beautiful : person animal clothes place drawn heard smelled
mutlu = happy : person
üzgün = sad : person
yorgun = tired : person animal
hasta = sick : person animal
aç = hungry : person animal
akıllı = clever : person animal
tembel = lazy : person animal
cesur = brave : person
zengin = rich : person
fakir = poor : person
ünlü = famous : person building
güçlü = strong : person animal
kızgın = angry : person animal
iyi = good : person read watched tool
kötü = bad : person read watched
beyaz = white : animal clothes smelled furniture vehicle fixed
siyah = black : animal clothes furniture vehicle
kırmızı = red : clothes furniture vehicle smelled toy
mavi = blue : clothes furniture vehicle toy
yeşil = green : clothes furniture vehicle plant
sarı = yellow : clothes furniture vehicle smelled
kirli = dirty : animal clothes furniture vehicle washed indoors water
temiz = clean : clothes furniture washed indoors water
ağır = heavy : thing furniture -food -drink -clothes -picked -mass
ucuz = cheap : clothes food drink furniture tool
pahalı = expensive : clothes food drink furniture vehicle tool
uzun = long : text climbed
kısa = short : text watched
soğuk = cold : drink water meat
sıcak = hot : drink baked
taze = fresh : food picked
lezzetli = delicious : food
tatlı = sweet : drink plant -cookable
ilginç = interesting : read told text watched
sıkıcı = boring : read text watched
önemli = important : text sent told
ıslak = wet : clothes animal
sessiz = quiet : person place
karanlık = dark : indoors outdoors
"""


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun: its Turkish and English citation forms, English plural (None: regular, "-": none) and tags."""

    tr: str
    en: str
    en_plural: str | None = None
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Verb:
    """One use of a verb: Turkish stem, English base and past (None: regular), case of its complement, flags, types."""

    tr: str
    en: str
    en_past: str | None = None
    case: str = "acc"
    flags: frozenset[str] = frozenset()
    subjects: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective (Turkish adjectives do not inflect before a noun) and the types of noun that it fits."""

    tr: str
    en: str
    types: tuple[str, ...] = ()


def fits(types: tuple[str, ...], noun: Noun) -> bool:
    """Whether a noun has one of the wanted types and none of those excluded with a minus."""
    wanted = {t for t in types if not t.startswith("-")}
    excluded = {t[1:] for t in types if t.startswith("-")}
    return bool(wanted & noun.tags) and not excluded & noun.tags


def _fields(line: str) -> tuple[str, str, str | None, list[str]]:
    """Splits `turkish = english [/ irregular] : rest : ...` into its parts."""
    head, *rest = (part.strip() for part in line.split(":"))
    tr, en = head.split(" = ")
    en, _, irregular = en.partition(" / ")
    return tr, en, irregular or None, rest


def _noun(line: str) -> Noun:
    tr, en, plural, (tags,) = _fields(line)
    return Noun(tr, en, plural, frozenset(tags.split()))


def _verb(line: str) -> Verb:
    tr, en, past, (grammar, types) = _fields(line)
    case, *flags = grammar.split()
    subjects, objects = (tuple(side.split()) for side in types.split("->"))
    return Verb(tr, en, past, case, frozenset(flags), subjects, objects)


def _adjective(line: str) -> Adjective:
    tr, en, _, (types,) = _fields(line)
    return Adjective(tr, en, tuple(types.split()))


NOUNS: tuple[Noun, ...] = tuple(_noun(line) for line in _NOUNS.splitlines() if line)
VERBS: tuple[Verb, ...] = tuple(_verb(line) for line in _VERBS.splitlines() if line)
ADJECTIVES: tuple[Adjective, ...] = tuple(_adjective(line) for line in _ADJECTIVES.splitlines() if line)
