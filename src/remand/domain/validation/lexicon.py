"""Word lists in a dozen languages, placeholders, and phrases that stand where a part of a record should be.

Each word is a weak hint among others. Each pattern names something that a rule looks for in one clause. A rule that
misses something, instead of finding it, first asks `is_readable`: a record in a language without word lists is never
faulted for a missing phrase.
"""

from __future__ import annotations

import re

from remand.domain.reasons import RejectionReason
from remand.domain.text.words import phrase_set, split_words, word_set

WORD_LISTS = {
    "done": """
done merged closed finished completed complete released deployed resolved shipped delivered landed live published
fertig erledigt gemergt abgeschlossen geschlossen umgesetzt veröffentlicht ausgeliefert
hecho hecha terminado terminada cerrado cerrada fusionado completado completada resuelto publicado desplegado
fait faite terminé terminée fermé fermée fusionné fusionnée livré livrée résolu déployé publié
feito feita concluído concluída fechado fechada mesclado mesclada entregue resolvido publicado
fatto fatta chiuso chiusa completato completata risolto pubblicato unito
zrobione zamknięte zamknięty scalone scalony gotowe ukończone ukończony wdrożone zakończone
готово закрыт закрыта закрыто выполнено выполнена слит слито завершено завершена
完成 合并 已关 关闭 上线 发布 完了 済み 済ん 解決
""",
    "works": """
works work worked working passes passed pass ok okay succeeds succeeded success successful green fine fits identical
equal same possible reachable available reads loads runs
läuft lief funktioniert geht ging klappt besteht bestanden grün gleich identisch passt möglich erreichbar vorhanden
funciona funcionan funcionó pasa pasan pasó pasaron verde igual iguales idéntico correcto disponible posible
fonctionne fonctionnent marche marchent passe passent passés vert verte identique identiques disponible possible
funcionam passa passam passou passaram verde idêntico idênticos disponível possível
funziona funzionano passano verdi identico identici disponibile
działa działają przechodzi przechodzą zielone zielony identyczne dostępne możliwe
работает работают проходит проходят прошли доступен одинаковы одинаково
成功 通过 正常 可用 一致 相同 可行 没问 動作 動い 動く 同じ 可能 通る 通過
""",
    "fails": """
fails fail failed failing failure failures error errors exception refused refuses denied forbidden timeout timeouts
timed missing rejected rejects crash crashes crashed unavailable unreachable blocked broken breaks wrong lost overflow
overflowed unsupported unimplemented unauthorized invalid expired throws aborted aborts conflict prohibited mismatch
exceeded locked garbage stale unknown undefined stops declined
fehler fehlt fehlen fehlgeschlagen schlägt scheitert verweigert abgelehnt falsch kaputt bricht gesperrt ungültig
falla fallan falló fallaron fallo error falta faltan denegado rechazado rechaza prohibido incorrecto bloqueado
échoue échouent échec échecs erreur manque manquant refusé refusée refuse interdit bloqué bloquée cassé
falha falham falhou falharam erro falta faltam negado recusado rejeitado proibido bloqueado errado
errore fallisce falliscono fallito manca mancano rifiutato negato bloccato vietato
błąd błędy brak brakuje odrzucony odrzuca odmowa zablokowany niepowodzenie
ошибка ошибки отказ отказано нет отклонено запрещено сбой падает
失败 错误 报错 拒绝 超时 缺少 缺失 崩溃 被拒 不存 失敗 エラ 拒否 不足 見つ
""",
    "not": """
no not none never nothing cannot can't cant isn't doesn't don't won't without neither nor nobody nowhere zero non
kein keine keinen keiner keinem nicht nie nichts niemand ohne weder
sin ningún ninguna ninguno nunca nada nadie tampoco
pas aucun aucune jamais rien sans personne ni
não nenhum nenhuma nunca sem nada ninguém
nessun nessuna nessuno mai niente senza
nie brak bez żaden żadna żadne nikt nic
не нет без никто ничего нельзя никогда
""",
    "open": """
open opened pending unmerged review reviews draft planned scheduled started assigned waiting requested progress
queued approvals approval unreleased unpublished backlog
offen offene offenen geplant begonnen ausstehend prüfung
abierto abierta abiertos pendiente pendientes revisión planificado empezado iniciada
ouvert ouverte ouvertes attente revue prévu prévue commencé commencée
aberto aberta pendente revisão planejado planeado iniciado iniciada
aperto aperta attesa revisione pianificato
otwarte otwarty otwarta oczekuje przegląd zaplanowane rozpoczęte
открыт открыта открыто ожидает ревью запланировано начата
未合 未完 未开 未关 待审 评审 进行 未着 未マ レビ 審査
""",
    "permits": """
can may could fine ok allowed choice already existing exists exist either or available enough optional ready
provided supplied contains stored given
kann können darf erlaubt schon bereits vorhanden vorhandene vorhandenen oder genügt reicht liegt
puede pueden ya existe existen existente o permitido disponible basta
peut peuvent déjà existe existent existant existante ou permis autorisé suffit
pode podem já existe existem existente ou permitido basta
può possono già esiste esistente o permesso basta
może mogą już istnieje istniejący lub albo wystarczy
может можно уже есть существует или достаточно
可以 已有 已经 或者 现有 已在 既存 すで 可能 既に
""",
    "restricts": """
no not only all every must same without exactly single full fixed stay stays keep keeps never below above under
within most least each any entire both always strictly less
kein keine nur alle jede jeder muss müssen ohne genau einzige bleibt bleiben nie unter über höchstens mindestens immer
sin solo sólo todos todas cada debe deben exactamente único única menos máximo mínimo siempre ningún
sans seulement tous toutes chaque doit doivent exactement unique moins maximum minimum toujours aucun aucune
sem só somente todos todas cada deve devem exatamente único única menos máximo mínimo sempre nenhum
senza solo tutti tutte ogni deve devono esattamente sempre nessun
bez tylko wszystkie każdy musi muszą dokładnie zawsze żaden poniżej
без только все каждый должен должна должны ровно всегда
只能 必须 全部 所有 不能 不得 不许 以内 以下 のみ 必ず すべ 全て なし
""",
    "chooses": """
or either otherwise if else instead preferred preferably unless meanwhile alternatively option options
oder entweder sonst falls wenn andernfalls alternativ solange
o si sino alternativamente mientras
ou si sinon alternativement
se senão caso enquanto alternativamente
oppure altrimenti
albo lub jeśli inaczej
или если иначе либо
或者 否则 如果 要么 または ある もし それ あれ
""",
    "ready": """
ready prepared drafted attached branch patch prototype prototyped draft pr sketched written implemented built tested
merged quote
bereit vorbereitet fertig zweig entwurf geschrieben prototyp angehängt branch
listo lista preparado preparada rama borrador escrito adjunto prototipo
prêt prête préparé branche brouillon écrit joint prototype
pronto pronta preparado ramo rascunho escrito anexo protótipo
pronto ramo bozza scritto allegato prototipo
gotowy gotowa gotowe przygotowany gałąź szkic prototyp
готов готова готово ветка ветке черновик прототип
准备 分支 已写 草稿 原型 就绪 準備 ブラ 試作 下書
""",
    "asked": """
asked answered replied reply replies mailed emailed consulted pinged messaged inquired enquired responded phoned
gefragt fragte antwortete geantwortet angefragt nachgefragt rückfrage rückfragen nachfrage nachfragen anfrage angeschrieben
angerufen gemailt
pregunté preguntado preguntamos respondió contestó consulté consultado respuesta
demandé répondu répond interrogé réponse questionné
perguntei respondeu perguntado consultei resposta
chiesto risposto risposta
zapytałem zapytałam zapytano odpowiedział odpowiedziała spytałem pytanie odpowiedź odpowiedzi
спросил спросила спросили ответил ответила ответили ответ ответа уточнил уточнила
询问 问了 问过 回复 答复 提问 请教 咨询 已问 回答 质问 質問 聞い 聞き 返答 尋ね 問い 回答 返信 返事 照会
""",
    "answers": """
answered replied reply replies responded pinged antwortete geantwortet angefragt anfrage respondió contestó respuesta répondu répond
réponse respondeu resposta risposto risposta odpowiedział odpowiedziała odpowiedź odpowiedzi ответил ответила ответили ответ ответа
回复 答复 回答 返答 返信 返事
""",
    "contacted": """
wrote requested contacted response spoke talked discussed showed shown posted presented raised called met
antwort besprochen geschrieben gezeigt vorgelegt consulta escribí mostré hablé écrit contacté montré parlé escrevi mostrei falei
scritto contattato mostrato napisałem napisałam pokazałem написал написала обратился показал 联系 联络 沟通 展示 連絡 相談 見せ
""",
    "asks": """
whether which who whom ob welche welcher welches wer cuál cuáles quién quel quelle quels lequel qui qual quais quem quale
czy który która które kto ли который кто
是否 哪个 哪些 哪一 谁来 还是 かど どち どれ 誰が
""",
    "prefers": """
should prefer preferred preference clean cleaner proper properly nicer convenient elegant modern ugly style worth
better belongs belong easier comfortable deserves consistent nice taste opinion feel feels
sollte sollten lieber sauber sauberer besser schöner gehört bequem elegant unschön gefällt
debería prefiero mejor limpio cómodo elegante moderno feo gusta conviene
devrait préfère mieux propre pratique élégant moderne moche plaît convient
deveria prefiro melhor limpo cómodo elegante moderno feio gosto
dovrebbe preferisco meglio pulito comodo elegante
powinno powinien wolę lepiej czysto wygodniej elegancko ładniej
следует лучше чище удобнее красивее
应该 更好 优雅 规范 习惯 方便 喜欢 べき 好み 綺麗 きれ
""",
    "trivial": """
just simply trivial easy easily directly one-line one-liner line lines minute minutes min built-in builtin standard
flag option default switch
einfach trivial direkt zeile zeilen minute minuten leicht standard
simplemente trivial fácil directamente línea líneas minuto minutos
simplement trivial facile directement ligne lignes minute minutes
simplesmente trivial fácil diretamente linha linhas minuto minutos
semplicemente banale direttamente riga righe minuto minuti
prosto trywialne łatwo linia linijka linię minuta minut
просто легко строка строку минута минут
一行 简单 直接 分钟 只需 標準 簡単 一行 だけ 分で
""",
    "protocol": """
rejection reject rejected blocker blockers evidence evidenced requirement requirements required require requires
depend depends dependency dependencies conflict conflicts conflicting interpreted interpretation interpretations
director protocol classified classification classify decomposition decomposed decompose
criterion criteria minimum concrete alternative attempt attempts attempted
assessed assessment analysis analysed analyzed evaluation evaluated
reformulation reformulated stakeholder stakeholders infeasible infeasibility unclear
beleg belege nachweis abhängigkeit abhängigkeiten konflikt anforderung anforderungen bewertung interpretiert
blockade analyse kriterien alternative bewertet
evidencia evidencias dependencia conflicto requisito requisitos interpretado interpretación análisis analizado
analizada alternativa bloqueo criterio criterios
preuve preuves dépendance conflit exigence exigences interprété interprétation analyse analysé alternative blocage
évidence dependência conflito interpretado interpretação análise analisado analisada bloqueio evidência
prova dipendenza conflitto requisito interpretato analisi
dowód dowody zależność konflikt wymaganie wymagania analiza przeanalizowano interpretacja
доказательство зависимость конфликт требование требования анализ
证据 依赖 冲突 需求 分析 评估 解读 证明 根拠 依存 矛盾 要件 解釈 評価
""",
    "waits": """
wait waits waiting until first afterwards later next
warten wartet abwarten bis zuerst danach später
esperar espera hasta primero después luego
attendre attend jusqu'à d'abord ensuite après
esperar aguardar até primeiro depois
aspettare finché prima dopo poi
czekać poczekać aż najpierw potem później
ждать подождать пока сначала потом
等待 等到 之后 然后 再做 待つ 待っ 待ち まず 後で
""",
    "vague": """
complex complicated hard difficult confusing confused unclear missing information info context stuff something anything
things thing sure problem problems issue issues detail details someone somebody else other others people more some many
much needs need needed bigger smaller large larger somehow various general various task tasks team teams do does doing
work works impossible possible understand seems maybe probably first later want please provide proper good bad too
time everything all very really with this that from into have has been will would they them their there what which
about before after than then only when where such also both must should could can
schwierig komplex kompliziert unklar verwirrend fehlt information kontext etwas problem jemand anderer andere mehr
aufgabe aufgaben bitte alles sehr
difícil complejo complicado confuso falta información contexto algo problema alguien otro otra más tarea tareas todo
difficile complexe compliqué flou manque information contexte quelque chose problème quelqu'un autre plus tâche tout
complexo confuso informação contexto alguém outro outra mais tarefa tudo
complesso difficile informazioni contesto qualcosa qualcuno altro
trudne skomplikowane niejasne informacji kontekst coś ktoś inny więcej zadanie wszystko
сложно непонятно информации контекст кто-то другой больше задача всё
复杂 困难 不清 清楚 情况 信息 上下 下文 更多 澄清 任务 提供 问题 复雑 難し 不明 情報 誰か
""",
    "generic": """
code codebase base file files project projects repo repository documentation docs manual ticket tickets system systems module modules
component components approach approaches option options solution solutions way ways look looks looked looking read reads reading
review reviewed reviews check checked checking try tried tries trying attempted analyze analyzed analysed analyse analysis examine
examined investigate investigated explore explored study studied consider considered thought think spent spend carefully thoroughly
briefly several times closely deeply understood figure figured find finding found search searched browse browsed familiar structure
implement implements implemented implementing implementation proceed continue continues resume restart start starts started again
back available soon while whole entire part parts half step steps second third phase remaining rest remainder bigger grew grown
grows growth turned planned expected estimated estimate originally original actual actually described stated given same effort
discuss discussed discussion meeting talk talked better best clarify clarified clarification clarify explain explained explanation
meant mean means meaning exactly wanted wants expect expectation specify specified situation state status condition matter
happens happened happen goes going come comes came gets getting make makes made take takes took done finish happen
handle handles handled fix fixed fixes solve solved solution resolve correctly normal normally able unable attempt
still nobody nothing cannot anything everything really fully simply just yet now currently moment today
requested question questions answer answers ambiguous ambiguity interpretation interpretations unspecified undefined
give given hand over different engineer engineers developer developers human humans senior agent agents person assign assigned please
better nicer alternative alternatives suitable appropriate possible feasible however because therefore since during
code datei dateien projekt dokumentation ansatz lösung angesehen angeschaut gelesen geprüft versucht überlegt analysiert untersucht
weiter weitermachen fortfahren beginnen wieder verfügbar umsetzen umsetzung später gewachsen größer geplant erwartet beschrieben
bessere besser finden bitten bitte darum geben arbeit viel umfang gebraucht erforderlich zuerst klären klärung erklären gemeint genau gewünscht besprechen lage sache geht funktioniert fertig lösen machen
fichier fichiers projet documentation approche solution regardé regarder lu essayé réfléchi analysé examiné continuer reprendre périmètre grandi avant cela doit être
commencer disponible réaliser plus grand prévu décrit clarifier expliquer exactement voulu discuter situation chose faire résoudre
archivo archivos proyecto documentación enfoque solución mirado leído revisado probado intentado pensado analizado continuar
alcance creció mucho primero tiene reanudar empezar disponible implementar mayor previsto descrito aclarar explicar exactamente quiere discutir situación cosa hacer
resolver arquivo ficheiro projeto documentação abordagem solução olhei li tentei pensei analisei âmbito cresceu isto primeiro pedido continuar retomar começar
esclarecer explicar exatamente situação coisa fazer
progetto documentazione soluzione guardato letto provato pensato analizzato continuare chiarire spiegare situazione cosa fare
plik pliki projekt dokumentacja rozwiązanie przejrzałem przeczytałem próbowałem zakres urósł musi najpierw zrobione kontynuować wyjaśnić dokładnie sytuacja zrobić
код файл файлы проект документация решение посмотрел прочитал изучил попробовал подумал продолжить начать доступно объём вырос нужно сначала уточнить
объяснить именно ситуация сделать решить задачу задачи
代码 文件 项目 文档 方法 方案 看了 看过 阅读 查看 检查 尝试 试了 试过 考虑 研究 继续 开始 可用 实现 更大 计划 描述 说明 解释 明确 究竟 到底 讨论 完成 恢复 解决
进行 处理 合适 一些 一下 时间 认真 仔细 了解 范围 变大 大了 必须 先完 寻找 找更 更好 好的 的方
コー ード ファ イル 文書 方法 確認 検討 調査 調べ 読ん 見た 試し 続け 開始 再開 実装 対応 説明 明確 正確 相談 完了 解決 状況 理解 時間 資料 範囲 大き 必要 要が 先に 別の 要件 明確 確に にす する
""",
    "interprets": """
interpret interprets interpreted interpreting interpretation interpretations reading readings understood variant variants
either both versus vs whichever alternatively
interpretiert lesart lesarten verstanden gedeutet deutung deutungen entweder beide beiden beides variante varianten fassungen
interprété interprétée interpréter interprétation interprétations lecture lectures compris soit variante variantes
interpretar interpretado interpretada interpreté interpretación interpretaciones lectura lecturas entendido entendí variante variantes ambos ambas
interpretei interpretação interpretações leitura leituras entendi
interpretato interpretazione interpretazioni lettura letture entrambi entrambe
interpretacja interpretacje interpretacji zinterpretowano rozumiem wariant warianty oba obie
понял поняла трактовка трактовки трактую толкование вариант варианты оба обе либо прочтение прочтения
理解 解读 解释 两种 三种 方案 口径 还是 或是 解釈 両方 二通 三通 通り
""",
    "opposes": """
conflict conflicts conflicting contradict contradicts contradiction contradictory exclude excludes exclusive incompatible versus vs
against both simultaneously forbid forbids forbidden prohibits neither nor whereas mutually clash clashes violate violates opposite
irreconcilable together
konflikt widerspricht widersprechen widerspruch schließt schließen unvereinbar gegen beides beide zugleich gleichzeitig verbietet weder verletzt
conflit contredit contredisent contradiction exclut excluent incompatible incompatibles contre deux simultanément interdit viole
conflicto contradice contradicen contradicción excluye excluyen incompatible incompatibles contra ambos ambas simultáneamente prohíbe viola
conflito contradiz contradizem contradição exclui excluem incompatível incompatíveis contra ambos ambas proíbe
conflitto contraddice contraddicono contraddizione esclude escludono incompatibile incompatibili contro entrambi vieta
konflikt sprzeczne sprzeczny sprzeczność wyklucza wykluczają niezgodne oba obie zabrania
противоречит противоречат противоречие исключает исключают несовместимо несовместимы оба одновременно запрещает конфликт
冲突 矛盾 相悖 互斥 排斥 不能同 同时 抵触 禁止 両立 相反 排他 同時 衝突
""",
}
CLASSES: dict[str, tuple[str, ...]] = {}
"""The lists that contain each word."""
for _name, _words in WORD_LISTS.items():
    for _word in dict.fromkeys(_words.split()):
        CLASSES[_word] = (*CLASSES.get(_word, ()), _name)
GENERIC_STEMS = frozenset(word[:6] for word in WORD_LISTS["generic"].split())
"""The stems of words that are not specific to a task."""


PLACEHOLDERS = phrase_set("""
n/a, na, n.a, none, null, nil, nothing, todo, to do, tbd, tba, to be done, to be defined, to be determined
fixme, xxx, x, unknown, empty, see above, see below, see summary, see the summary, see detail, see details
see attached, see attachment, see the attachment, see task, see the task, see ticket, see the ticket
as above, as described above, same as above, same, same as summary, ditto, idem, placeholder, lorem ipsum
none given, not given, as discussed, blah, bla, no description, no description provided, no summary
no details provided, to be added, same as the summary, see the detail, see the details, test, asdf, dummy
text, summary, detail, details, description, reason, will add later, to follow, later, not applicable
no comment, no details, k.a, keine, keine angabe, keine angaben, siehe oben, siehe unten, s.o, s.u, wie oben
wird nachgereicht, folgt, entfällt, offen, voir ci-dessus, voir plus haut, voir résumé, à faire, à compléter
néant, sans objet, rien, aucun, aucune, s.o., ver arriba, véase arriba, ver resumen, igual que arriba
por hacer, pendiente, ninguno, ninguna, nada, no aplica, ver acima, ver resumo, por fazer, nenhum, nenhuma
não aplicável, a definir, pendente, vedi sopra, da fare, da definire, nessuno, nessuna, niente
non applicabile, jak wyżej, patrz wyżej, do zrobienia, brak, nie dotyczy, do uzupełnienia, см. выше, см выше
смотри выше, нет, не применимо, сделать, позже, н/д, как выше, 无, 没有, 见上, 见上文, 同上, 如上, 待定, 待补充, 暂无, 略, 不适用
待办, なし, 無し, 上記参照, 上記の通り, 上記のとおり, 未定, 未記入, 後で, 後ほど, 該当なし, 特になし
""")
"""Texts written where nothing is said."""
_REASONS = frozenset(
    spelling
    for name in RejectionReason.__members__
    for spelling in (name.lower(), name.lower().replace("_", " "))
)
"""The reason's own name, which the record contains already."""
_EDGES = " \t\r\n.,;:!?…-–—_*/\\()[]{}<>'\"`。、，；：！？「」（）#"


def is_placeholder(text: str) -> bool:
    """True for a text without content: empty, only punctuation, or a filler word."""
    bare = text.strip(_EDGES).casefold()
    words = " ".join(bare.split())
    return not any(char.isalnum() for char in bare) or words in PLACEHOLDERS or words in _REASONS


_WAITS = re.compile(
    r"\b(?:a?wait(?:s|ing)?|hold (?:off|on|it|the task)|put (?:it|this|the task) (?:on hold|off)|on hold|postpone[sd]?|defer(?:red)?"
    r"|pause|sleep on|retry|re-try|retries|(?:re)?try(?:ing)?(?: \w+){0,3} (?:again|later)|(?:check|look|see|run it) (?:back|again)|come back|give it (?:some |more )?time|nothing (?:can be done|to do)|at (?:another|a later) time|(?:schedule|move|push|shift|revisit)(?: \w+){0,4} (?:next (?:week|month|sprint)|later sprint|another (?:day|time|sprint))"
    r"|(?:proceed|resume|continue|start|go on|carry on|pick (?:it|this) up)(?: \w+){0,3} (?:once|when|after|as soon as)|keep polling|be patient|until further notice|on ice|(?:hold|put|block|freeze|stall|shelve|leave) (?:it|this|that|everything|the (?:task|ticket|work))(?: \w+){0,3} (?:until|till)|see (?:if|whether|what)|(?:revisit|reconsider|look at|come to)(?: \w+){0,5} (?:again|q[1-4]|(?:next|in a few|another) (?:year|quarter|months?))|next (?:year|quarter)|park(?:ed)?(?: \w+){0,3} (?:behind|until|for now)|let (?:it|this|the task) (?:rest|lie|sit)|nothing happens|retomar(?:lo|la)? cuando|wieder aufnehmen|sit (?:tight|it out)"
    r"|warten?|wartet|abwarten|abgewartet|(?:ruhen|liegen) ?lassen|(?:später|nochmals?|noch einmal|erneut)(?: \w+)? (?:versuchen|probieren)|aufschieben"
    r"|verschieben|zurückstellen|pausieren|attendre|attends|attendons|attendez|patienter|réessayer|retenter|reporter (?:à|la|le|cette|ce)|repousser"
    r"|esper(?:ar|a|amos|en|e)|reintentar|posponer|aplazar|intentar(?:lo)? (?:de nuevo|otra vez|más tarde)|volver a intentar(?:lo)?"
    r"|aguard(?:ar|e|a)|tentar (?:de novo|novamente|mais tarde|outra vez)|adiar|aspett(?:are|a)|attendere|riprov(?:are|a)|rimandare|rinviare"
    r"|(?:po|za)?czeka\w*|spróbowa\w* (?:ponownie|jeszcze raz|później)|ponowić|odłoży\w*|odczeka\w*"
    r"|(?:по|до)?жд(?:ать|ите|ём|ем|аться|ёмся|емся)|подожд\w+|повторить (?:позже|попытку)|попробовать (?:снова|позже|ещё раз|еще раз)|отложить"
    r"|wachten|afwachten|uitstellen|vänta)\b"
    r"|等待|等到|坐等|静候|稍后|再试|重试|以后再|过几天|推迟|暂缓|搁置|等(?!级|于|同|价|量|效|式|分|比|距|宽|高)"
    r"|待つ|待って|待ち|待機|待てば|後で|あとで|再試行|もう一度|やり直|延期|保留|しばらく|様子を見"
    r"|기다|나중에|재시도|다시 시도|보류"
    r"|^\W*(?:once|as soon as|until(?! then)|bis(?! dahin| zu)|jusqu['’]à ce|hasta que|até que|sobald|nachdem|dès que|une fois que|en cuanto|assim que|non appena|gdy tylko|как только)\b",
    re.IGNORECASE,
)
_THING = r"(?:task|ticket|issue|request|story|requirement|feature|item|project|idea|effort|work|case|(?:it|this|that)(?=\W*(?:$|as\b|because|since|out\b|down\b|entirely|altogether)))"
_DROPS = re.compile(
    rf"\b(?:(?:drop|close|abandon|cancel|discard|scrap|delete|remove|kill|shelve|reject|archive|withdraw|decline|stop|end|forget|skip)s?"
    rf"(?: about)?(?: down| out)?(?: the| this| that| our)?(?: whole| entire| original)? ?{_THING}|give(?: it| this| the task)? up|giving up|won'?t[- ]?(?:fix|do)"
    r"|do nothing|(?:do not|don'?t|not) (?:do|implement|build) (?:it|this|the (?:task|feature))|leave (?:it|this|things|everything|(?:the|our)(?: \w+){1,3}) (?:as (?:it|they) (?:is|are)|alone|undone|unchanged|out)"
    r"|(?:as|it|is|be) (?:impossible|infeasible|not feasible|not possible|not doable)|call it off|mothball|status quo|not (?:pursue|pursuing|implementing|doing|building) (?:it|this|that|the)|(?:stop|cease|quit) (?:pursuing|working on|trying|doing)|off the (?:sprint|table|roadmap)|(?:mark|flag|label|set|resolve|close)(?:ed)? [^.;,]{1,40}? (?:as )?(?:obsolete|impossible|infeasible|invalid|unfeasible|wontfix|won'?t[- ](?:fix|do))|abandon(?:ed|ing)?|no action|(?:off|from) the (?:list|plan|backlog|board)|(?:tell|inform|explain|let)(?: \w+){0,4} (?:cannot|can'?t|can not|impossible|not possible)"
    r"|(?:task|ticket|issue|request|story|requirement|feature|it) (?:should|can|could|must|has to|needs to|may) be (?:closed|cancelled|canceled|dropped|rejected|abandoned|removed|withdrawn)"
    r"|(?:aufgabe|ticket|vorhaben|anforderung|thema|issue|vorgang|sie|es|das)(?: \w+){0,3} (?:streichen|verwerfen|schließen|schliessen|aufgeben|einstellen|beenden|absagen|zurückziehen|ablehnen|löschen|lassen)"
    r"|fallen ?lassen|nicht (?:weiter ?)?(?:verfolgen|umsetzen|weitermachen)|verzichten|zu den akten|nichts (?:tun|machen|unternehmen)|aufgeben|verwerfen|bleiben ?lassen|so (?:be)?lassen|unmöglich"
    r"|abandonn(?:er|ons|e)|(?:fermer|clore|clôturer|annuler|supprimer|rejeter|retirer)(?: \w+'| le| la| ce| cette| l['’])? ?(?:ticket|tâche|demande|sujet|issue)"
    r"|laisser (?:tomber|tel quel|comme c)|renoncer|ne rien faire|ne pas (?:le |la )?faire|comme impossible"
    r"|abandonar|(?:cerrar|cancelar|descartar|eliminar|anular|rechazar|retirar)(?: el| la| esta| este)? ?(?:ticket|tarea|tique|solicitud|incidencia|petición|issue)"
    r"|dejarl[oa] (?:como|así)|dejar la tarea|renunciar|no hacer(?:lo|la)?(?: nada)?|(?:por|como) imposible|desistir"
    r"|(?:fechar|cancelar|descartar|encerrar|rejeitar|arquivar)(?: o| a| esta| este)? ?(?:ticket|tarefa|chamado|pedido|issue)|não fazer|deixar como está|como impossível"
    r"|abbandonare|(?:chiudere|annullare|scartare|cancellare)(?: il| la| questo| questa)? ?(?:ticket|task|attività|richiesta|issue)|lasciar perdere|rinunciare"
    r"|porzuci\w*|(?:zamknąć|anulować|odrzucić|usunąć|zamknij)(?: to| ten)? ?(?:zgłoszenie|zadanie|ticket)|zrezygnowa\w*|nic nie robić|zaniecha\w*|jako niemożliw\w*"
    r"|отказаться от (?:задач\w*|этого|идеи|работы)|(?:закрыть|отменить|снять|удалить|отклонить)(?: эту| этот)? ?(?:задач\w*|тикет\w*|заявк\w*|требовани\w*)"
    r"|бросить|забросить|ничего не делать|оставить (?:всё |все )?как есть|не делать|как невозможн\w*)\b"
    r"|放弃|(?:关闭|取消|删除|撤销|作废|关掉|终止)(?:该|此|这个|这项|本)?(?:任务|工单|需求|问题|单子|请求)|不做|不再做|维持现状|不予处理|作为不可能"
    r"|(?:タスク|チケット|課題|要件|依頼|作業)を?.{0,8}(?:中止|取り下げ|閉じ|クローズ|破棄|やめ|終了|却下|削除|キャンセル)|中止する|断念|諦め|あきらめ|取りやめ|やめる|何もしない|現状維持|不可能として"
    r"|포기|취소|종료"
    r"|^\W*(?:tell|inform|notify)(?: \w+){1,4}\W*$",
    re.IGNORECASE,
)
_DELEGATES = re.compile(
    r"\b(?:(?:some|any)(?:one|body)(?: else)?|who(?:m)?ever|(?:an)?other (?:agent|engineer|developer|dev|team|person|colleague|member|people|department|group)s?"
    r"|(?:more |better )?(?:senior|experienced|capable|skilled|qualified|competent|knowledgeable)|an? (?:human|expert|specialist|person|architect|colleague)|experts?|specialists?"
    r"|take (?:care of (?:it|this)|(?:it |this )?over)|let the user|consultants?|whoever|transfer (?:it|this|the (?:task|ticket))|(?:re)?assign(?:ed)?|hand(?:ed)? (?:it|this|the task|over)|pass (?:it|this|the task) (?:on|to)|escalate|delegate|outsource"
    r"|jemand(?:em|en)?(?: ander\w*)?|ander(?:e|en|er|em) (?:agent\w*|entwickler\w*|team\w*|person\w*|kolleg\w*|leute)|erfahren\w*|expert\w*|weitergeben|abgeben|übergeben|delegieren|eskalieren|zuweisen"
    r"|quelqu['’]un(?: d['’]autre)?|autre (?:agent|développeur|équipe|personne|collègue)|plus expérimenté\w*|déléguer|réassigner|confier|transférer"
    r"|alguien(?: más)?|otr[oa] (?:agente|desarrollador|equipo|persona|colega|programador)|más experiencia|delegar|reasignar|pasarl[oa]"
    r"|alguém|outr[oa] (?:agente|pessoa|equipa|equipe|programador|colega)|especialista|reatribuir"
    r"|qualcun(?:o|'altro| altro)|altr[oa] (?:agente|sviluppatore|persona)|un esperto|delegare|riassegnare"
    r"|ktoś(?: inny)?|komuś(?: innemu)?|inn\w+ (?:agent\w*|programi\w*|zesp\w*|osob\w*)|ekspert\w*|przekaza\w*|delegowa\w*"
    r"|кто-то(?: другой)?|кому-то(?: другому)?|кто-нибудь|друг\w+ (?:агент\w*|разработчик\w*|команд\w*|человек\w*|исполнител\w*)|эксперт\w*|передать|поручить|делегировать|эскалировать)\b"
    r"|别人|其他人|其他(?:工程师|同事|团队|人员|代理)|另一[个位]?(?:人|工程师|同事|代理|团队)|专家|有经验|资深|转交|转给|移交|委派"
    r"|(?:他|別|ほか)の(?:人|エージェント|担当|メンバー|チーム|開発者|誰か)|誰か|専門家|詳しい人|経験者|任せ|引き継|割り当て"
    r"|다른 (?:사람|에이전트|팀)|누군가|전문가",
    re.IGNORECASE,
)
IDLE = {"waits": _WAITS, "drops": _DROPS, "delegates": _DELEGATES}
"""Ways to propose nothing: waiting, dropping the task, or leaving it to anybody else."""

_REASON_GIVEN = re.compile(
    r"^\W*(?:because|since|given that|nobody can|no one can|weil|da|denn|niemand kann|parce que|puisque|car|personne ne peut|porque|ya que|puesto que|nadie puede|ninguém pode|perché|poiché|nessuno può|ponieważ|bo|nikt nie|потому что|так как|поскольку|никто не)\b|^\W*(?:因为|由于|なぜなら)|(?:ため|から)\W*$",
    re.IGNORECASE,
)

_CLAUSE_END = re.compile(
    r"[.;:,!?](?=\s|$)|[。；：，、！？\n()（）]| [-–—/] |->|→"
    r"|\b(?:and|then|or|so that|und|oder|dann|danach|anschließend|et|ou|puis|ensuite|y|o|luego|después|e|então|depois|poi|quindi|i|lub|potem|а|и|или|затем|потом)\b"
    r"|然后|并且|或者|或|その後|それから|または|もしくは",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.;!?](?=\s|$)|[。；！？\n]")

HEDGES = re.compile(
    r"\b(?:i (?:personally )?(?:would say|think|believe|feel|guess|assume|suppose|suspect|imagine|doubt|expect)|we (?:think|believe|feel|guess|assume|suspect)|in my (?:view|opinion|experience|judge?ment)"
    r"|my (?:view|opinion|experience|impression|feeling|guess|gut|judge?ment)|seems?|probably|presumably|apparently|supposedly|maybe|perhaps|likely|pretty sure|trust me|i'?m (?:sure|certain|convinced)"
    r"|obviously|everybody knows|everyone knows|well known|it is known|common knowledge|hunch|gut feeling|as far as i know|to my knowledge"
    r"|ich (?:glaube|denke|vermute|meine|schätze|nehme an)|vermutlich|wahrscheinlich|wohl|meiner meinung|meines erachtens|scheint|anscheinend|offenbar|offensichtlich|vielleicht|bekanntlich"
    r"|je (?:pense|crois|suppose|présume)|semble|probablement|peut-être|à mon avis|sans doute|apparemment|il paraît"
    r"|creo|pienso|supongo|me parece|parece|probablemente|quizás?|tal vez|en mi opinión|seguramente"
    r"|acho|penso|creio|suponho|provavelmente|talvez|na minha opinião"
    r"|credo|suppongo|sembra|probabilmente|forse|secondo me|a mio parere"
    r"|myślę|sądzę|chyba|prawdopodobnie|wydaje się|moim zdaniem|przypuszczam"
    r"|(?:я )?(?:думаю|полагаю|считаю|предполагаю)|кажется|похоже|наверное|вероятно|возможно|по-моему|видимо)\b"
    r"|我觉得|我认为|我想|觉得|应该是|可能是|大概|也许|估计|恐怕|似乎|好像|猜测|个人看法"
    r"|と思う|と思い|思われ|らしい|ようだ|ようです|みたい|おそらく|恐らく|多分|たぶん|気がする|気がします|推測|はずだ|はずです|かもしれ"
    r"|것 같|아마|생각합니다|생각한다",
    re.IGNORECASE,
)
_VIEW = word_set("""
judgment judgement opinion experience view impression feeling assessment belief intuition gut hunch guess
guesswork sense knowledge assumption thought thoughts me myself self agent hearsay speculation einschätzung
meinung erfahrung bauchgefühl vermutung annahme eindruck ich selbst avis opinion expérience intuition
jugement impression ressenti moi opinión experiencia intuición juicio impresión criterio yo opinião
experiência intuição opinione esperienza intuizione parere opinia doświadczenie intuicja przeczucie мнение
опыт интуиция предположение ощущение я
""")
_ANY_VIEW = word_set("""
engineering professional own personal expert my our general common past previous long based on from by of
the a an and i developer technical subjective observation eigene eigener meine meiner persönliche aus nach
der mon ma notre personnel selon mi nuestra propia propio según minha própria mio mia moja własna моё мой
моя личное личный по
""")
_VIEW_WITHOUT_SPACES = re.compile(
    r"(?:个人|主观|经验|我的|自己的)*(?:意见|看法|判断|经验|直觉|推测|我|自己|本人)|(?:個人的な|主観的な|自分の)*(?:意見|感想|判断|経験則?|経験上|直感|勘|推測|自分|私)|의견|경험|느낌"
)

_EASY = re.compile(
    r"\b(?:trivial(?:ly)?|one[- ]liner|(?:one|single|1)[- ]line(?: change| fix)?|(?:a|one|two|three|five|ten|fifteen|twenty|few|couple of|[0-9]{1,2})[- ]minutes?['’]?s?(?: of)? (?:change|fix|job|task|edit|patch|thing|work|addition)"
    r"|(?:takes?|took|needs?|in|within|costs?|under)(?: about| only| just| maybe| me| less than| at most| roughly)* (?:a few|a couple of|two|three|five|ten|fifteen|twenty|[0-9]{1,2}) minutes"
    r"|(?:could|can|would|might)(?: \w+ly| just| also| well| even)*(?: be)? (?:add|do|done|write|create|implement|build|make|fix|supply|provide|code)\w*(?: \S+){1,5} (?:myself|ourselves|on my own|along the way|right away|on the fly|in passing|as part of this)"
    r"|(?:easy|simple|quick|straightforward) (?:to (?:add|do|write|fix|implement|build|create|make)|change|fix|job|addition|edit|patch|tweak)"
    r"|(?:small|tiny|minor) (?:change|fix|job|addition|edit|patch|tweak)(?: \S+){0,4} (?:that|which) i (?:can|could)|(?:a couple of|a few|two|three|[0-9]) lines(?: of code)?|(?:nothing|no one|nobody) (?:stops|prevents|keeps) me|(?:no|hardly any|little) effort|(?:it|this|that|which|(?:add|creat|build|writ|mak|do)ing it) (?:would be|is|was) (?:very |quite |so )?(?:simple|easy|tiny|minor|small)\b|it'?s (?:simple|easy|tiny|minor)\b|could be added (?:right )?here|quarter of an hour|half an hour"
    r"|no[- ]brainer|(?:dead|super) (?:simple|easy)|in no time|(?:a )?matter of (?:minutes|seconds|a few minutes)|(?:i|we) (?:could|can)(?: \w+ly| just| also| well)? (?:add|do|write|create|implement|build|make|fix)(?: \S+){0,5} (?:here|as well|too)"
    r"|no big deal|piece of cake|child'?s play|next to nothing"
    r"|einzeiler|(?:ein|eine|einer) (?:einzige |einzigen )?zeile|(?:fünf|zehn|[0-9]{1,2})[- ]?minuten[- ]?(?:arbeit|sache|änderung|job)|in (?:wenigen|ein paar|fünf|zehn|[0-9]{1,2}) minuten"
    r"|(?:könnte|kann) ich (?:\w+ ){0,4}selbst|ich (?:könnte|kann) (?:\w+ ){0,4}selbst|kleinigkeit|klacks|sache von (?:wenigen )?minuten|schnell (?:gemacht|erledigt|ergänzt)|kinderspiel"
    r"|une (?:seule )?ligne|(?:cinq|dix|quelques|[0-9]{1,2}) minutes de travail|en (?:quelques|cinq|dix|[0-9]{1,2}) minutes|(?:pourrais|peux) (?:\w+ ){0,4}moi-même|facile à (?:ajouter|faire|écrire)|triviale?"
    r"|una (?:sola )?línea|(?:cinco|diez|unos|[0-9]{1,2}) minutos de trabajo|en (?:unos|pocos|cinco|diez|[0-9]{1,2}) minutos|(?:podría|puedo) (?:\w+ ){0,4}yo mism[oa]|fácil de (?:añadir|hacer|escribir)|pan comido|(?:podría|puedo) (?:hacer|escribir|añadir|implementar)\w* yo"
    r"|uma (?:só |única )?linha|em (?:poucos|cinco|dez|[0-9]{1,2}) minutos|(?:poderia|posso) (?:\w+ ){0,4}eu mesm[oa]|fácil de (?:adicionar|fazer)"
    r"|una (?:sola )?riga|in (?:pochi|cinque|dieci|[0-9]{1,2}) minuti|banale|potrei (?:\w+ ){0,4}io stess[oa]"
    r"|jedna linijka|jednolinijkow\w+|w (?:kilka|pięć|dziesięć|[0-9]{1,2}) minut|trywialn\w+|(?:mogę|mógłbym) (?:\w+ ){0,4}sam"
    r"|тривиальн\w+|одн[ау] строч?к[ау]|за (?:пару|пять|десять|несколько|[0-9]{1,2}) минут|(?:могу|мог бы|могла бы) (?:\w+ ){0,4}сама?|легко (?:добавить|сделать|написать))\b"
    r"|一行(?:代码|就|即可|改动)|(?:五|十|几|[0-9]{1,2}) ?分钟(?:就|内|即可|的事|能)|我?自己(?:就)?(?:能|可以|也能|也可以)|很简单|非常简单|轻而易举|顺手|举手之劳|微不足道"
    r"|一行(?:で|だけ|の修正|の変更)|(?:五|十|数|[0-9]{1,2}) ?分(?:で|程度|もあれば|の作業)|自分で(?:も)?(?:追加|実装|書|作|対応|でき|足)|簡単に(?:追加|実装|作|でき)|些細|すぐに?でき|ささいな",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:not?|never|hardly|non|isn'?t|wasn'?t|cannot|can'?t|couldn'?t|kein\w*|nicht|nie|pas|jamais|ni|não|nunca|sin|nie|не|нет|ни|(?:do|does|did|is|was|were|has|have|wo|would|could|should)nt)\b|n['’]t\b|不|没|并非|ない|なく|ません|않|없",
    re.IGNORECASE,
)
_AFTERWARDS = re.compile(
    r"\b(?:once|after|afterwards|after that|then|when|as soon as|from then|danach|dann|sobald|nachdem|anschließend|wenn|ensuite|après|une fois|puis|quand|después|luego|cuando|una vez|depois|quando|assim que|dopo|poi|potem|kiedy|gdy|po|затем|после|когда|потом)\b"
    r"|之后|然后|以后|完成后|合并后|后再|その後|(?:した|完了|マージ)後|後は|たら|れば",
    re.IGNORECASE,
)

_FUNCTION_WORDS = tuple(
    frozenset(words.split())
    for words in (
        "the and with for this that from are which has have does would not what when there only but after they its than",
        "und nicht ist mit für eine auf wird sind auch von aus kein keine der das den dem oder aber über nur bei nach",
        "les des est une dans pour pas avec sur qui aucun aucune sans cette mais plus sont elle",
        "los las una para con por que del está pero sin ninguna hay como más solo",
        "não uma com para os dos são em um sem nenhuma mas pelo na por foi",
        "che per con una non sono della nessun anche del dopo questo",
        "nie jest się dla jak brak oraz przez że tylko jako ale",
        "и не на что для это по из от нет без как только но",
    )
)
"""Words that occur in nearly every sentence of each language, and rarely in others."""
_WRITTEN_WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
READABLE = 2


def clauses(text: str) -> tuple[str, ...]:
    """The clauses of a text."""
    return tuple(part for part in _CLAUSE_END.split(text) if part and part.strip())


def gives_reason(clause: str) -> bool:
    """True for a clause that gives a reason rather than an action."""
    return _REASON_GIVEN.search(clause) is not None


def says_easy(text: str, *, is_plan: bool = False) -> bool:
    """True if a sentence calls its subject easy or one's own to do, without negation or reference to a later step.

    In a plan the word for a later step may also follow.
    """
    for sentence in _SENTENCE_END.split(text):
        for match in _EASY.finditer(sentence):
            before = sentence[max(0, match.start() - 25) : match.start()]
            after = sentence[match.end() : match.end() + 8]
            is_denied = _NEGATED.search(before) or re.match(r"では|じゃ|とは|ではない", after)
            if not is_denied and not _AFTERWARDS.search(sentence if is_plan else sentence[: match.start()]):
                return True
    return False


def is_own_view(source: str) -> bool:
    """True for a source that names only a personal opinion."""
    words = split_words(source.casefold())
    if _VIEW_WITHOUT_SPACES.fullmatch("".join(words)):
        return True
    return any(word in _VIEW for word in words) and all(word in _VIEW or word in _ANY_VIEW for word in words)


def is_readable(words: tuple[str, ...]) -> bool:
    """True if the words are in a language that the rules know."""
    found = frozenset(words)
    if any(len(found & known) >= READABLE for known in _FUNCTION_WORDS):
        return True
    return sum(_WRITTEN_WITHOUT_SPACES.search(word) is not None for word in found) >= READABLE


_INDIRECT = re.compile(
    r"\b(?:whether|ob|czy|если ли|ли)\b|是否|还是|かどうか"
    r"|(?<!not )(?<!n't )\b(?:say|says|decide|decides|tell|know|name|clarify|state|ask|choose|define|confirm|settle|open|specify|answer)s?\b(?:\W+\w+){0,3}\W+(?:which|what|who|how|when|where)\b"
    r"|(?:^|[.;:,]\s)(?:which|what|who|how (?:many|long|much|often)|welche[rsmn]?|wer|wie viele?|quel(?:le)?s?|combien|qui|cuál(?:es)?|quién|cuánt[oa]s?|qual|quais|quem|quant[oaie]s?|quale|quali|chi|któr[yae]|kto|ile|как(?:ой|ая|ие)|кто|сколько)\b",
    re.IGNORECASE,
)
_READ_AS = re.compile(
    r"\b(?:read|taken|took|seen|understood|meant|treated|taking|reading|treating)(?: \w+)? as\b|\bals [^.;]{1,60} (?:gelesen|aufgefasst|verstanden|gedeutet)\b"
    r"|\b(?:lue?s?|pris|comprise?|entendue?) comme\b|\b(?:leíd[oa]|tomad[oa]|entendid[oa]) como\b|\b(?:lid[oa]|tomad[oa]) como\b|\b(?:letto|inteso) come\b"
    r"|\b(?:читать|понимать|понять|трактовать) как\b|理解为|理解成|看作|当作|と(?:読|解|取)",
    re.IGNORECASE,
)


def is_interpretation(text: str) -> bool:
    """True when a text says how the task was read."""
    return _READ_AS.search(text) is not None


def is_indirect_question(text: str) -> bool:
    """True if a text asks without a question mark: what somebody must say, or a question word at the start of a clause."""
    return _INDIRECT.search(text) is not None


_POSSIBLE = re.compile(
    r"\b(?:(?:would|could|does|do|can|may)(?: also| still| well| indeed)? (?:work|be done|be built|be implemented)|(?:is|are|be|was) (?:possible|feasible|doable)|works fine)\b[^.;!?]{0,40}\b(?:but|yet|though|however|only)\b"
    r"|\b(?:it|this|that|both|the task) (?:would|could|can)(?: be)? (?:work|done|possible|implemented)\b"
    r"|\b(?:wäre|ist|sind) (?:zwar )?(?:möglich|machbar|umsetzbar)|\b(?:ginge|ließe sich (?:zwar )?(?:machen|umsetzen))|\b(?:serait|est) (?:possible|faisable)\b|\b(?:sería|es) (?:posible|factible)\b"
    r"|\b(?:seria|é) (?:possível|viável)\b|\bsarebbe (?:possibile|fattibile)\b|\bbyłoby możliwe\b|\b(?:можно было бы|возможно сделать)\b|可以做到|是可行的|可能ではある|実現できるが|できなくはない",
    re.IGNORECASE,
)
_IMPOSSIBLE = re.compile(
    r"\b(?:cannot|can'?t|can not|could not|impossible|not possible|no way|never|neither|exclud\w+|conflict\w*|contradict\w*|forbid\w*|prohibit\w*|incompatib\w+|exceed\w*|overflow\w*|unreachable|does not (?:exist|fit|allow|have)|do not (?:exist|fit|allow|have)"
    r"|has no|have no|there (?:is|are) no|no \w+ (?:exists?|has|can|lets?)|must not|refus\w+|fail\w*|throws|only|minimum|maximum|limit\w*|more than|less than|too (?:large|small|few|many|slow|big|long|short)"
    r"|kann nicht|können nicht|kein\w*|nie|unmöglich|unvereinbar|widersprech\w*|widerspricht|schließ\w* sich aus|verbiet\w*|nur|ne (?:peut|peuvent)|impossible|aucun\w*|incompatible\w*|contredi\w+|interdi\w+"
    r"|no (?:puede|pueden|hay|existe)|imposible|incompatible\w*|contradi\w+|prohíbe\w*|ning\w+|não (?:pode|podem|há|existe)|impossível|nenhum\w*|non (?:può|possono|esiste)|impossibile|nessun\w*"
    r"|nie (?:może|mogą|da|ma)|niemożliw\w*|żad\w+|не (?:может|могут)|нельзя|невозможн\w*|нет|противореч\w*|исключа\w*)\b"
    r"|不能|不可能|无法|無法|冲突|矛盾|没有|不存在|只能|禁止|できない|できません|不可能|両立|ない|ません",
    re.IGNORECASE,
)


def says_possible(text: str) -> bool:
    """True if a text admits that the supposedly infeasible could be done."""
    return any(
        not _NEGATED.search(text[max(0, match.start() - 15) : match.end()])
        for match in _POSSIBLE.finditer(text)
    )


def says_impossible(text: str) -> bool:
    """True if a text says that something is impossible."""
    return _IMPOSSIBLE.search(text) is not None
